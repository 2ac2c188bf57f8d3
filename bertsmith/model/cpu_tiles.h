// Products in a processor's matrix unit (AMX): tiles of 16 rows by tiles of 16 columns, 64 bytes of
// depth at a time, in registers of its own.
//
// Its columns are read from panels as they lie, and so are rows whose numbers stand side by side. Sums
// leave by memory, which stays in the first cache. How high the tiles are is known to each thread
// apart: `Tiles`, which stands at the head of every region that multiplies, lets go of it and of the
// registers at its end. Where there is no such unit, nothing here multiplies. It knows no panels.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.

#pragma once

#include "native.h"

#if defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__linux__) && VECTOR_BYTES == 64
#define HAS_TILES 1
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#define HAS_TILES 0
#endif

namespace {

// Rows and columns of a tile, and what the sums of two tiles by two stand in.
constexpr int SIDE = 16, TALL = 2 * SIDE;

// Whether there are tiles for numbers of a type, and how much of their depth one holds.
template <typename Number>
constexpr bool HAS_TILES_OF = HAS_TILES && sizeof(Number) < 4;
template <typename Number>
constexpr int64_t TILE_DEPTH = 64 / sizeof(Number);

#if HAS_TILES

// Asks the system once: it keeps the registers from processes that have not asked.
inline bool may_use_tiles() {
  constexpr long REQUEST = 0x1023, TILE_DATA = 18;
  static const bool may = syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
  return may;
}

// Of sums 0 to 3, rows 4 and 5, columns 6 and 7.
struct TileShapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
};

class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  ~Tiles() {
    if (told) _tile_release();
    told = 0;
  }

  // From here on products are of so many rows, 1 to TALL. It takes as long as three small products.
  static void are_of(int rows) {
    if (told == rows) return;
    told = rows;
    const int upper = std::min(rows, SIDE), lower = rows - upper;
    const int heights[] = {upper, upper, lower, lower, upper, lower, SIDE, SIDE};
    TileShapes shapes{};
    shapes.palette = 1;
    for (int tile = 0; tile < 8; tile++) {
      shapes.rows[tile] = uint8_t(heights[tile]);
      shapes.bytes[tile] = heights[tile] ? 64 : 0;
    }
    asm volatile("" : : "r"(&shapes) : "memory");  // all of it is read, which g++ does not know
    _tile_loadconfig(&shapes);
  }

 private:
  static thread_local int told;
};

thread_local int Tiles::told = 0;

// So many rows by one tile of columns or two, of whole tiles of depth, added to what was there before,
// if anything was, -> sums; strides are bytes, and so is the step from a tile of rows to the next one of
// their depth. Rows that pass do not take the columns' place in the first cache. The unit takes 64 cycles
// for a step, in which the processor has room for some 60 instructions on vectors: `beside` is called at
// each.
template <bool IS_TALL, bool IS_BROAD, bool ROWS_PASS, typename Number, typename Beside>
inline void multiply_tiles(
    const Number* rows, int64_t row_stride, const Number* columns, int64_t column_stride,
    int64_t depth, const void* before, void* sums, int64_t sum_stride, int64_t row_step,
    Beside&& beside) {
  static_assert(HAS_TILES_OF<Number>, "the unit has no tiles of such numbers");
  asm volatile("" : : : "memory");  // tiles are read from memory, which g++ does not know
  if (!before) {
    _tile_zero(0);
    if constexpr (IS_BROAD) _tile_zero(1);
    if constexpr (IS_TALL) _tile_zero(2);
    if constexpr (IS_TALL && IS_BROAD) _tile_zero(3);
  } else {
    const char *upper = static_cast<const char*>(before), *lower = upper + SIDE * sum_stride;
    _tile_loadd(0, upper, sum_stride);
    if constexpr (IS_BROAD) _tile_loadd(1, upper + 64, sum_stride);
    if constexpr (IS_TALL) _tile_loadd(2, lower, sum_stride);
    if constexpr (IS_TALL && IS_BROAD) _tile_loadd(3, lower + 64, sum_stride);
  }
  const char* left = reinterpret_cast<const char*>(rows);
  const char* right = reinterpret_cast<const char*>(columns);
  for (int64_t at = 0; at < depth; at += TILE_DEPTH<Number>) {
    // The number of a tile is part of an instruction: no function can take it.
    if constexpr (ROWS_PASS)
      _tile_stream_loadd(4, left, row_stride);
    else
      _tile_loadd(4, left, row_stride);
    _tile_loadd(6, right, column_stride);
    if constexpr (IS_BROAD) _tile_loadd(7, right + 64, column_stride);
    if constexpr (IS_TALL && ROWS_PASS)
      _tile_stream_loadd(5, left + SIDE * row_stride, row_stride);
    else if constexpr (IS_TALL)
      _tile_loadd(5, left + SIDE * row_stride, row_stride);
    if constexpr (sizeof(Number) == 2) {
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (IS_BROAD) _tile_dpbf16ps(1, 4, 7);
      if constexpr (IS_TALL) _tile_dpbf16ps(2, 5, 6);
      if constexpr (IS_TALL && IS_BROAD) _tile_dpbf16ps(3, 5, 7);
    } else {
      _tile_dpbusd(0, 4, 6);
      if constexpr (IS_BROAD) _tile_dpbusd(1, 4, 7);
      if constexpr (IS_TALL) _tile_dpbusd(2, 5, 6);
      if constexpr (IS_TALL && IS_BROAD) _tile_dpbusd(3, 5, 7);
    }
    beside();
    left += row_step, right += SIDE * column_stride;
  }
  char *upper = static_cast<char*>(sums), *lower = upper + SIDE * sum_stride;
  _tile_stored(0, upper, sum_stride);
  if constexpr (IS_BROAD) _tile_stored(1, upper + 64, sum_stride);
  if constexpr (IS_TALL) _tile_stored(2, lower, sum_stride);
  if constexpr (IS_TALL && IS_BROAD) _tile_stored(3, lower + 64, sum_stride);
}

// The same with nothing beside it.
template <bool IS_TALL, bool IS_BROAD, bool ROWS_PASS, typename Number>
__attribute__((noinline)) void multiply_tiles_alone(
    const Number* rows, int64_t row_stride, const Number* columns, int64_t column_stride,
    int64_t depth, const void* before, void* sums, int64_t sum_stride, int64_t row_step) {
  multiply_tiles<IS_TALL, IS_BROAD, ROWS_PASS>(
      rows, row_stride, columns, column_stride, depth, before, sums, sum_stride, row_step, [] {});
}

#else

inline bool may_use_tiles() { return false; }
struct Tiles {};

#endif

// How numbers of a type are multiplied, by vectors in one instruction or not: as native.py calls it.
template <typename Number>
inline float way_of_products(bool has_instruction) {
  return HAS_TILES_OF<Number> && may_use_tiles() ? 2.0f : has_instruction ? 1.0f : 0.0f;
}

}  // namespace
