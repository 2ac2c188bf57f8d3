// Rows with ids -> the sum of each id's rows, on a CPU, in float32.
//
// The rows are put in the order of their ids, those of one id in their own, and blocks of that order are
// added up each by itself. Of an id whose rows lie in several blocks each makes a part, and the parts are
// added in their order: so the number of threads changes no bit, and a frequent id is the work of all of
// them. It knows no threads, and not what the rows are.
//
// Legend: T rows, H columns, R ids there are, U those that the rows have, W = H rounded up to vectors.

#pragma once

#include <numeric>

#include "cpu_token_rows.h"

namespace {

// Where sums of all ids stand, of which those that no row has are left as they are; or those of the
// others alone, where there is room to say which they are.
struct IdSums {
  void* sums;     // (R, H) or (U, H)
  int64_t* ids;   // (U,), rising; null for all of them
  int64_t count;  // U
};

// The rows in the order of their ids.
struct IdOrder {
  static constexpr int DIGIT = 10, DIGITS = 1 << DIGIT;  // bits that are looked at together
  int64_t count;           // T
  int64_t *rows, *places;  // (T,): which one, and where among the sums its id's stands

  IdOrder(Cutter& cutter, int64_t count)
      : count(count), rows(cutter.numbers<int64_t>(count)), places(cutter.numbers<int64_t>(count)) {}

  void sort(const Ids& ids, IdSums& to) {
    std::iota(rows, rows + count, 0);
    for (int shift = 0; shift < 63 && (ids.most - 1) >> shift > 0; shift += DIGIT) {
      sort_by_digit(ids.first, shift);
      std::swap(rows, places);
    }
    int64_t distinct = 0, last = -1;
    for (int64_t i = 0; i < count; i++) {
      const int64_t id = ids.first[rows[i]];
      if (id != last && to.ids) to.ids[distinct] = id;
      distinct += id != last, last = id;
      places[i] = to.ids ? distinct - 1 : id;
    }
    to.count = distinct;
  }

  bool begins(int64_t i) const { return i == 0 || places[i - 1] != places[i]; }

  // Whether rows of the i-th one's id are still to come.
  bool goes_on(int64_t i) const { return i + 1 < count && places[i] == places[i + 1]; }

 private:
  // The rows to where the places stand, those of a digit in the order in which they were.
  void sort_by_digit(const int64_t* ids, int shift) const {
    int64_t starts[DIGITS + 1] = {};
    for (int64_t i = 0; i < count; i++) starts[((ids[i] >> shift) & (DIGITS - 1)) + 1]++;
    std::partial_sum(starts, starts + DIGITS, starts);
    for (int64_t i = 0; i < count; i++)
      places[starts[(ids[rows[i]] >> shift) & (DIGITS - 1)]++] = rows[i];
  }
};

// First the rows are sorted, then all blocks added up, then all blocks' parts joined.
template <typename Number>
struct SumsById {
  static constexpr int64_t BLOCK = 32;

  SumsById(Cutter& cutter, const Grid<const float>& rows, int64_t width, const Ids& ids, IdSums& to)
      : rows(rows),
        width(width),
        wide(rounded_up(width)),
        ids(ids),
        to(to),
        order(cutter, ids.count),
        parts(cutter.numbers<float>(num_blocks() * 2 * wide)) {}

  int64_t num_blocks() const { return ::parts(ids.count, BLOCK); }

  void sort() { order.sort(ids, to); }

  // Whole sums of ids that have all of their rows in the block, and parts of the others.
  void add_up(int64_t block) const {
    for (int64_t first = block * BLOCK, last; first < end(block); first = last + 1) {
      for (last = first; last + 1 < end(block) && order.goes_on(last);) last++;
      if (!order.begins(first))
        add_up(first, last, part(block, false), wide);
      else if (order.goes_on(last))
        add_up(first, last, part(block, true), wide);
      else
        add_up(first, last, sum_of(last), width);
    }
  }

  // Of the id that begins in the block and goes on behind it.
  void join(int64_t block) const {
    const int64_t first = block * BLOCK, last = end(block) - 1, place = order.places[last];
    const bool began_before = !order.begins(first) && order.places[first] == place;
    if (began_before || !order.goes_on(last)) return;
    int64_t after = block + 1;
    while (end(after - 1) < ids.count && order.places[after * BLOCK] == place) after++;
    Number* sums = sum_of(last);
    for (int64_t h = 0; h < width; h += LANES) {
      Floats sum = load(part(block, true) + h);
      for (int64_t next = block + 1; next < after; next++) sum += load(part(next, false) + h);
      put(sums + h, sum, width - h);
    }
  }

 private:
  Grid<const float> rows;  // (T, H), of W floats
  int64_t width, wide;     // H, W
  Ids ids;
  IdSums& to;
  IdOrder order;
  float* parts;  // (blocks, 2, W): of the id that goes on from the block before, and of one that goes on

  int64_t end(int64_t block) const { return std::min((block + 1) * BLOCK, ids.count); }
  float* part(int64_t block, bool goes_on) const { return parts + (block * 2 + goes_on) * wide; }
  Number* sum_of(int64_t i) const {
    return static_cast<Number*>(to.sums) + order.places[i] * width;
  }

  template <typename Sum>
  void add_up(int64_t first, int64_t last, Sum* sums, int64_t room) const {
    for (int64_t h = 0; h < room; h += LANES) {
      Floats sum = load(rows.at(order.rows[first], 0) + h);
      for (int64_t i = first + 1; i <= last; i++) sum += load(rows.at(order.rows[i], 0) + h);
      put(sums + h, sum, room - h);
    }
  }
};

}  // namespace
