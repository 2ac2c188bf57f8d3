// The rows that a token's ids name in the tables of embeddings, and their sum, on a CPU.
//
// It knows no norms and no layers.
//
// Legend: T tokens, H hidden size, R rows of a table.

#pragma once

#include "cpu_rows.h"

namespace {

constexpr int TABLES = 3;  // of tokens, segments and positions
constexpr float NOT_THERE = 1.0f;

struct Ids {
  const int64_t* first;  // (T,)
  int64_t count, most;   // T, R

  bool are_there() const {
    for (int64_t t = 0; t < count; t++)
      if (first[t] < 0 || first[t] >= most) return false;
    return true;
  }
};

struct Table {
  const void* rows;    // (R, H)
  const int64_t* ids;  // (T,)
  int64_t num_rows;    // R
};

struct TokenTables {
  Table tables[TABLES];
  Norm norm;
  int64_t width;  // H
  int64_t count;  // T

  Ids ids(int table) const { return {tables[table].ids, count, tables[table].num_rows}; }
  bool have_all() const {
    for (int table = 0; table < TABLES; table++)
      if (!ids(table).are_there()) return false;
    return true;
  }
};

// Of one token.
template <typename Number>
struct TokenRows {
  const Number* parts[TABLES];
  int width;

  TokenRows(const TokenTables& of, int64_t t) : width(int(of.width)) {
    for (int i = 0; i < TABLES; i++)
      parts[i] = static_cast<const Number*>(of.tables[i].rows) + of.tables[i].ids[t] * of.width;
  }

  // Asks for the token's own vector: those of segments and of positions are met again and again.
  void ask() const { ask_for_row(Grid<const Number>{parts[0], width}, 0, 0, width); }

  Floats added_up(int64_t h) const {
    Floats sum = {};
    for (const Number* part : parts) sum += get(part + h, width - h);
    return sum;
  }
};

}  // namespace
