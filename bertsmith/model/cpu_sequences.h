// The sequences of a packed stream, and the rows of it that are asked for, on a CPU.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

// A stream's sequences, by the rows of their first and last tokens, and the rows asked for, in rising
// order; all, where their number is below zero.
struct Sequences {
  const int64_t *firsts, *lasts;
  int64_t count;
  const int64_t* rows;
  int64_t num_rows;

  bool are_all_asked() const { return num_rows < 0; }
  // Whether every sequence is asked for its first row, or for its last one, and for no other.
  bool are_asked_at_an_end() const {
    if (num_rows != count) return false;
    return std::equal(rows, rows + count, firsts) || std::equal(rows, rows + count, lasts);
  }
  int64_t length(int64_t number) const { return lasts[number] - firsts[number] + 1; }

  // The first sequences of chunks, and the end: as many as there are of no more rows than so many, or of
  // one sequence, but nearly equal. The stream is cut into so many equal parts, and a sequence is of the
  // part that its middle lies in: a chunk of several has less than twice a part.
  std::vector<int64_t> chunks(int64_t most_rows) const {
    const int64_t total = lasts[count - 1] + 1;
    int64_t num_chunks = 1;
    for (int64_t n = 1, start = 0; n < count; n++)
      if (lasts[n] + 1 - start > most_rows) start = firsts[n], num_chunks++;
    auto chunk_of = [&](int64_t n) { return (firsts[n] + lasts[n]) * num_chunks / (2 * total); };
    std::vector<int64_t> borders{0};
    for (int64_t n = 1; n < count; n++)
      if (chunk_of(n) > chunk_of(n - 1)) borders.push_back(n);
    borders.push_back(count);
    return borders;
  }

  // So many heads of some sequences, which are tasks, a thread takes at a time: one of a sequence after
  // the other, where the longest one's leave enough for all threads.
  int64_t heads_at_once(int64_t first, int64_t end, int64_t num_heads, int num_threads) const {
    int64_t longest = 1;
    for (int64_t n = first; n < end; n++) longest = std::max(longest, length(n));
    const int64_t num_rows = lasts[end - 1] + 1 - firsts[first];
    return std::clamp<int64_t>(num_rows * num_heads / (4 * num_threads * longest), 1, num_heads);
  }

  // Where each sequence's queries begin among all, and where the last one's end.
  std::vector<int64_t> asked_starts() const {
    std::vector<int64_t> starts(firsts, firsts + count);
    if (are_all_asked()) {
      starts.push_back(lasts[count - 1] + 1);
    } else {
      for (int64_t& start : starts) start = std::lower_bound(rows, rows + num_rows, start) - rows;
      starts.push_back(num_rows);
    }
    return starts;
  }
};

}  // namespace
