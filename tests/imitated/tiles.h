// What a processor's matrix unit (AMX) does, in plain C++, for one that has none: included before a
// source, it takes the place of the unit's instructions. What would fault there ends the process.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18, and
// volume 2, the instructions by name.

#pragma once

#if defined(__AMX_BF16__)

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace imitated {

constexpr int NUM_TILES = 8, MOST_ROWS = 16, MOST_BYTES = 64;

struct Tile {
  int rows, bytes;  // of a row; none: not configured
  alignas(64) unsigned char data[MOST_ROWS][MOST_BYTES];
};

inline thread_local Tile tiles[NUM_TILES] = {};

inline void demand(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "a matrix unit would fault: %s\n", what);
  std::abort();
}

inline Tile& configured(int number) {
  demand(tiles[number].rows > 0, "a tile that was not configured");
  return tiles[number];
}

inline void release() {
  std::memset(tiles, 0, sizeof tiles);
}

inline void configure(const void* shapes) {
  const auto* told = static_cast<const unsigned char*>(shapes);
  demand(told[0] == 1, "a palette that is not the first");  // none, which resets, nobody asks for
  for (int place = 2; place < 64; place++) {
    const bool is_told = (place >= 16 && place < 32) || (place >= 48 && place < 56);
    demand(is_told || told[place] == 0, "what is reserved is not zero");
  }
  release();
  for (int number = 0; number < NUM_TILES; number++) {
    Tile& tile = tiles[number];
    uint16_t bytes;
    std::memcpy(&bytes, told + 16 + 2 * number, sizeof bytes);
    tile.rows = told[48 + number], tile.bytes = bytes;
    demand(tile.rows <= MOST_ROWS && tile.bytes <= MOST_BYTES, "a tile that is too large");
    demand((tile.rows == 0) == (tile.bytes == 0), "a tile of rows without columns");
    demand(tile.bytes % 4 == 0, "columns that are no whole sums");  // the unit: when it multiplies
  }
}

inline void zero(int number) {
  Tile& tile = configured(number);
  std::memset(tile.data, 0, sizeof tile.data);
}

inline void load(int number, const void* place, int64_t stride) {
  Tile& tile = configured(number);
  zero(number);
  for (int row = 0; row < tile.rows; row++)
    std::memcpy(tile.data[row], static_cast<const char*>(place) + row * stride, tile.bytes);
}

inline void store(int number, void* place, int64_t stride) {
  const Tile& tile = configured(number);
  for (int row = 0; row < tile.rows; row++)
    std::memcpy(static_cast<char*>(place) + row * stride, tile.data[row], tile.bytes);
}

typedef float Floats __attribute__((vector_size(MOST_BYTES)));
typedef int32_t Integers __attribute__((vector_size(MOST_BYTES)));

// Rows by columns: `sum` has the sums of a row as they were, and a function that gives for each four
// bytes of depth those of the row, and those of every column.
template <typename Sums, typename Sum>
inline void multiply(int sums, int rows, int columns, Sum sum) {
  demand(sums != rows && sums != columns && rows != columns, "a tile by itself");
  Tile& to = configured(sums);
  const Tile &left = configured(rows), &right = configured(columns);
  demand(to.rows == left.rows && to.bytes == right.bytes, "sums of another shape");
  demand(left.bytes / 4 == right.rows, "rows and columns of unequal depth");
  for (int row = 0; row < to.rows; row++) {
    Sums before;
    std::memcpy(&before, to.data[row], sizeof before);
    const Sums found = sum(before, right.rows, [&](int depth, uint32_t* four, Integers* all) {
      std::memcpy(four, left.data[row] + 4 * depth, sizeof *four);
      std::memcpy(all, right.data[depth], sizeof *all);
    });
    std::memcpy(to.data[row], &found, to.bytes);
  }
}

// While it stands, subnormal numbers are zero, as they are to the unit whatever a thread has set.
class WithoutSubnormal {
 public:
  WithoutSubnormal() { _mm_setcsr(before | 0x8040); }
  ~WithoutSubnormal() { _mm_setcsr(before); }

 private:
  const unsigned before = _mm_getcsr();
};

inline float widened(uint32_t upper) {
  float number;
  std::memcpy(&number, &upper, sizeof number);
  return number;
}

// Products of even and of odd depth are summed up apart.
inline void multiply_bfloat16(int sums, int rows, int columns) {
  const WithoutSubnormal meanwhile;
  multiply<Floats>(sums, rows, columns, [](Floats before, int depth, auto read) {
    Floats even = {}, odd = {};
    for (int at = 0; at < depth; at++) {
      uint32_t left;
      Integers right;
      read(at, &left, &right);
      even += widened(left << 16) * (Floats)(right << 16);
      odd += widened(left & 0xFFFF0000) * (Floats)(right & int32_t(0xFFFF0000));
    }
    return before + (even + odd);
  });
}

// Rows are unsigned, columns signed.
inline void multiply_bytes(int sums, int rows, int columns) {
  multiply<Integers>(sums, rows, columns, [](Integers found, int depth, auto read) {
    for (int at = 0; at < depth; at++) {
      uint32_t left;
      Integers right;
      read(at, &left, &right);
      for (int bits = 0; bits < 32; bits += 8)
        found += int32_t(left >> bits & 0xFF) * ((right << (24 - bits)) >> 24);
    }
    return found;
  });
}

}  // namespace imitated

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#define _tile_loadconfig(shapes) imitated::configure(shapes)
#define _tile_release() imitated::release()
#define _tile_zero(tile) imitated::zero(tile)
#define _tile_loadd(tile, place, stride) imitated::load(tile, place, stride)
#define _tile_stream_loadd(tile, place, stride) imitated::load(tile, place, stride)
#define _tile_stored(tile, place, stride) imitated::store(tile, place, stride)
#define _tile_dpbf16ps(sums, rows, columns) imitated::multiply_bfloat16(sums, rows, columns)
#define _tile_dpbusd(sums, rows, columns) imitated::multiply_bytes(sums, rows, columns)
// A system that knows no matrix unit would not grant it; another may have its reasons.
#ifdef TILES_ARE_REFUSED
#define syscall(...) -1L
#else
#define syscall(...) 0L
#endif

#endif
