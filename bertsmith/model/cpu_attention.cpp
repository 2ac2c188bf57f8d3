// Self-attention of a packed stream on a CPU, forward and backward: what cpu_attention.py calls.
//
// A task is one head of one sequence: its queries, keys and values are read where the projection
// wrote them, widened to float32, and all between them and the context stays in the cache of one
// core. Nothing is padded but the last vector of a row, no scores are kept (the backward pass makes
// them again), and no task sees another: a result depends neither on its neighbours nor on the
// number of threads. It knows no blocks and no Python.
//
// Source: Vaswani et al. 2017, section 3.2.
//
// Legend: L tokens of a sequence, W = L rounded up to vectors; A heads, K head size, D = K rounded
// up; H = A K. Matrices lie row by row.

#include <omp.h>

#include <limits>

#include "native.h"

namespace {

// A tile of a product is kept in registers: there are 32 of 64 bytes, 16 of fewer.
constexpr int TILE_ROWS = 6, TILE_VECTORS = VECTOR_BYTES == 64 ? 4 : 2;
constexpr int LEFT_TO_RIGHT = 1, RIGHT_TO_LEFT = 2;
constexpr float HIDDEN = -std::numeric_limits<float>::infinity();

struct Rules {
  int num_heads, head_size, direction;
  float scale;  // of scores
  Dropout dropout;
};

// ---- products -----------------------------------------------------------------------------------

// A matrix, or its transpose: an element is `row` and `column` steps from the first.
struct Left {
  const float* first;
  int64_t row, column;
};

template <int ROWS, int VECTORS>
inline void multiply_tile(Left left, const float* right, int width, int depth, float* product) {
  Floats sums[ROWS][VECTORS] = {};
  for (int k = 0; k < depth; k++) {
    Floats values[VECTORS];
    for (int v = 0; v < VECTORS; v++) values[v] = load(right + int64_t(k) * width + v * LANES);
    for (int r = 0; r < ROWS; r++) {
      float factor = left.first[r * left.row + k * left.column];
      for (int v = 0; v < VECTORS; v++) sums[r][v] += factor * values[v];
    }
  }
  for (int r = 0; r < ROWS; r++)
    for (int v = 0; v < VECTORS; v++) store(product + int64_t(r) * width + v * LANES, sums[r][v]);
}

template <int VECTORS>
inline void multiply_columns(
    Left left, const float* right, int width, int rows, int depth, float* product) {
  int r = 0;
  auto from = [&](int row) { return Left{left.first + row * left.row, left.row, left.column}; };
  for (; r + TILE_ROWS <= rows; r += TILE_ROWS)
    multiply_tile<TILE_ROWS, VECTORS>(from(r), right, width, depth, product + int64_t(r) * width);
  for (; r + 2 <= rows; r += 2)
    multiply_tile<2, VECTORS>(from(r), right, width, depth, product + int64_t(r) * width);
  if (r < rows)
    multiply_tile<1, VECTORS>(from(r), right, width, depth, product + int64_t(r) * width);
}

// (rows, depth) by (depth, width) -> (rows, width); the width is a multiple of LANES.
void multiply(Left left, const float* right, int width, int rows, int depth, float* product) {
  int v = 0;
  for (; v + TILE_VECTORS <= width / LANES; v += TILE_VECTORS)
    multiply_columns<TILE_VECTORS>(left, right + v * LANES, width, rows, depth, product + v * LANES);
  for (; v < width / LANES; v++)
    multiply_columns<1>(left, right + v * LANES, width, rows, depth, product + v * LANES);
}

// ---- between the products -----------------------------------------------------------------------

// (L, W) scores -> probabilities, in place; zero where a query may not see, and past the end.
void softmax(float* scores, int length, int width, const Rules& rules) {
  for (int i = 0; i < length; i++) {
    float* row = scores + int64_t(i) * width;
    int first = rules.direction == RIGHT_TO_LEFT ? i : 0;
    int end = rules.direction == LEFT_TO_RIGHT ? i + 1 : length;
    std::fill(row, row + first, HIDDEN);
    std::fill(row + end, row + width, HIDDEN);
    float highest = highest_of(row, width);
    Floats total = {};
    for (int j = 0; j < width; j += LANES) {
      Floats weights = exponential((load(row + j) - highest) * rules.scale);
      store(row + j, weights);
      total += weights;
    }
    float factor = 1.0f / sum_of(total);
    for (int j = 0; j < width; j += LANES) store(row + j, load(row + j) * factor);
  }
}

// Attention's columns are (head, key): the head's number stands above the key's position.
inline uint32_t column(int head, int key) { return uint32_t(head) << 16 | uint32_t(key); }

// (L, W) probabilities -> dropped ones, in place.
void drop(float* weights, const int32_t* words, int head, int length, int width, const Rules& rules) {
  for (int i = 0; i < length; i++) {
    float* row = weights + int64_t(i) * width;
    for (int j = 0; j < width; j += LANES)
      store(row + j, load(row + j) * keep_factors(words[i], column(head, j), rules.dropout));
  }
}

// Gradients of dropped probabilities -> of scores; probabilities -> dropped ones; both in place.
void softmax_backward(
    float* weights, float* gradients, const int32_t* words, int head, int length, int width,
    const Rules& rules) {
  for (int i = 0; i < length; i++) {
    float *weight = weights + int64_t(i) * width, *gradient = gradients + int64_t(i) * width;
    Floats total = {};
    for (int j = 0; j < width; j += LANES) {
      Floats arrived = load(gradient + j);
      if (words) {
        arrived *= keep_factors(words[i], column(head, j), rules.dropout);
        store(gradient + j, arrived);
      }
      total += load(weight + j) * arrived;
    }
    float inner = sum_of(total);
    for (int j = 0; j < width; j += LANES)
      store(gradient + j, load(weight + j) * (load(gradient + j) - inner) * rules.scale);
  }
  if (words) drop(weights, words, head, length, width, rules);
}

// ---- one head of one sequence -------------------------------------------------------------------

// (L, K) numbers, `stride` from row to row -> (L, D) floats.
template <typename Number>
void read_rows(const Number* from, int64_t stride, int length, int size, float* to) {
  int width = rounded_up(size);
  for (int i = 0; i < length; i++, from += stride, to += width) {
    read(from, size, to);
    std::fill(to + size, to + width, 0.0f);
  }
}

// (L, K) numbers -> (K, W) floats.
template <typename Number>
void read_turned(const Number* from, int64_t stride, int length, int size, float* to) {
  int width = rounded_up(length);
  for (int k = 0; k < size; k++) std::fill(to + k * width + length, to + (k + 1) * width, 0.0f);
  for (int i = 0; i < length; i++)
    for (int k = 0; k < size; k++) to[k * width + i] = widened(from[i * stride + k]);
}

// (L, D) floats -> (L, K) numbers.
template <typename Number>
void write_rows(const float* from, int length, int size, Number* to, int64_t stride) {
  int width = rounded_up(size);
  for (int i = 0; i < length; i++, from += width, to += stride) write(from, size, to);
}

// What a thread works in: three matrices (L, D), one that is (L, D) or (K, W), two (L, W). Going
// forward it has no use for the keys and the gradients.
struct Room {
  float *queries, *others, *turned, *weights, *keys, *gradients;

  static int64_t size(int longest, int head_size, bool is_backward) {
    int64_t width = rounded_up(longest), rows = longest * int64_t(rounded_up(head_size));
    int64_t columns = std::max(rows, head_size * width), square = longest * width;
    return 2 * rows + columns + square + (is_backward ? rows + square : 0);
  }

  Room(float* floats, int longest, int head_size) {
    int64_t width = rounded_up(longest), rows = longest * int64_t(rounded_up(head_size));
    int64_t columns = std::max(rows, head_size * width), square = longest * width;
    queries = floats;
    others = queries + rows;
    turned = others + rows;
    weights = turned + columns;
    keys = weights + square;
    gradients = keys + rows;
  }
};

// A stream's rows from `start` on, as one head sees them.
template <typename Number>
struct Task {
  const Number* qkv;     // (L, 3H), the head's first query
  const int32_t* words;  // (L,) of dropout; none without it
  int64_t start;
  int length, head;
};

template <typename Number>
void probabilities(const Task<Number>& task, const Rules& rules, Room& room) {
  int size = rules.head_size, width = rounded_up(task.length), wide = rounded_up(size);
  int64_t hidden = int64_t(rules.num_heads) * size, stride = 3 * hidden;
  read_rows(task.qkv, stride, task.length, size, room.queries);
  read_turned(task.qkv + hidden, stride, task.length, size, room.turned);
  multiply({room.queries, wide, 1}, room.turned, width, task.length, size, room.weights);
  softmax(room.weights, task.length, width, rules);
}

template <typename Number>
void forward(const Task<Number>& task, const Rules& rules, Room& room, Number* contexts) {
  int size = rules.head_size, width = rounded_up(task.length), wide = rounded_up(size);
  int64_t hidden = int64_t(rules.num_heads) * size;
  probabilities(task, rules, room);
  if (task.words) drop(room.weights, task.words, task.head, task.length, width, rules);
  read_rows(task.qkv + 2 * hidden, 3 * hidden, task.length, size, room.others);
  multiply({room.weights, width, 1}, room.others, wide, task.length, task.length, room.turned);
  Number* to = contexts + task.start * hidden + task.head * size;
  write_rows(room.turned, task.length, size, to, hidden);
}

template <typename Number>
void backward(
    const Task<Number>& task, const Rules& rules, Room& room, const Number* grad_contexts,
    Number* grad_qkv) {
  int size = rules.head_size, length = task.length;
  int width = rounded_up(length), wide = rounded_up(size);
  int64_t hidden = int64_t(rules.num_heads) * size, stride = 3 * hidden;
  const Number* arrived = grad_contexts + task.start * hidden + task.head * size;
  Number* to = grad_qkv + task.start * stride + task.head * size;
  probabilities(task, rules, room);
  read_rows(arrived, hidden, length, size, room.others);
  read_turned(task.qkv + 2 * hidden, stride, length, size, room.turned);
  multiply({room.others, wide, 1}, room.turned, width, length, size, room.gradients);
  softmax_backward(room.weights, room.gradients, task.words, task.head, length, width, rules);
  read_rows(task.qkv + hidden, stride, length, size, room.keys);
  multiply({room.gradients, width, 1}, room.keys, wide, length, length, room.turned);
  write_rows(room.turned, length, size, to, stride);
  multiply({room.gradients, 1, width}, room.queries, wide, length, length, room.turned);
  write_rows(room.turned, length, size, to + hidden, stride);
  multiply({room.weights, 1, width}, room.others, wide, length, length, room.turned);
  write_rows(room.turned, length, size, to + 2 * hidden, stride);
}

// ---- all of them --------------------------------------------------------------------------------

// A stream's sequences: the rows of their first and last tokens.
struct Sequences {
  const int64_t *firsts, *lasts;
  int64_t count;

  int length(int64_t number) const { return int(lasts[number] - firsts[number] + 1); }
};

template <typename Number, typename Each>
float over_tasks(
    const Number* qkv, const int32_t* words, const Sequences& sequences, const Rules& rules,
    bool is_backward, int num_threads, Each each) {
  int longest = 0, size = rules.head_size;
  for (int64_t n = 0; n < sequences.count; n++) longest = std::max(longest, sequences.length(n));
  int64_t num_tasks = sequences.count * rules.num_heads;
  num_threads = int(std::min<int64_t>(num_threads, num_tasks));
  int64_t room_size = Room::size(longest, size, is_backward);
  Memory memory(num_threads * room_size);
  if (!memory.floats) return NO_ROOM;
#pragma omp parallel num_threads(num_threads)
  {
    Room room(memory.floats + omp_get_thread_num() * room_size, longest, size);
#pragma omp for schedule(dynamic, 1)
    for (int64_t number = 0; number < num_tasks; number++) {
      int64_t sequence = number / rules.num_heads, start = sequences.firsts[sequence];
      int head = int(number % rules.num_heads);
      each(
          Task<Number>{
              qkv + start * 3 * rules.num_heads * size + head * size,
              words ? words + start : nullptr, start, sequences.length(sequence), head},
          room);
    }
  }
  return DONE;
}

}  // namespace

#define ATTENTION(TYPE, NUMBER)                                                                    \
  extern "C" float attention_forward_##TYPE(                                                       \
      const NUMBER* qkv, const int32_t* words, const int64_t* firsts, const int64_t* lasts,        \
      int64_t count, const Rules* rules, NUMBER* contexts, int num_threads) {                      \
    return over_tasks(                                                                             \
        qkv, words, {firsts, lasts, count}, *rules, false, num_threads,                            \
        [=](const Task<NUMBER>& task, Room& room) { forward(task, *rules, room, contexts); });     \
  }                                                                                                \
  extern "C" float attention_backward_##TYPE(                                                      \
      const NUMBER* qkv, const int32_t* words, const int64_t* firsts, const int64_t* lasts,        \
      int64_t count, const Rules* rules, const NUMBER* grad_contexts, NUMBER* grad_qkv,            \
      int num_threads) {                                                                           \
    return over_tasks(                                                                             \
        qkv, words, {firsts, lasts, count}, *rules, true, num_threads,                             \
        [=](const Task<NUMBER>& task, Room& room) {                                                \
          backward(task, *rules, room, grad_contexts, grad_qkv);                                   \
        });                                                                                        \
  }

ATTENTION(fp32, float)
ATTENTION(bf16, uint16_t)
