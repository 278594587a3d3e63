#include "examples/llm_serving/batching/cell_ledger.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace serving {

CellLedger::CellLedger(int32_t cells, int32_t sequences) : sequences_(sequences), holders_(cells), pins_(cells) {
  free_.reserve(cells);
  for (int32_t cell = cells; cell > 0; --cell) free_.push_back(cell - 1);
}

void CellLedger::add_pin(int32_t cell) {
  if (pins_[cell]++ == 0) ++pinned_;
}

void CellLedger::drop_pin(int32_t cell) {
  if (--pins_[cell] == 0) --pinned_;
}

void CellLedger::append(int32_t sequence, std::span<const Token> tokens) {
  assert(tokens.size() <= free_.size());
  Sequence& own = sequences_[sequence];
  for (Token token : tokens) {
    const int32_t cell = free_.back();
    free_.pop_back();
    holders_[cell] = 1;
    if (own.pinned) add_pin(cell);
    own.tokens.push_back(token);
    own.cells.push_back(cell);
  }
}

void CellLedger::share(int32_t from, int32_t to, int32_t count) {
  const Sequence& source = sequences_[from];
  Sequence& own = sequences_[to];
  assert(own.tokens.empty() && count <= length(from));
  own.tokens.assign(source.tokens.begin(), source.tokens.begin() + count);
  own.cells.assign(source.cells.begin(), source.cells.begin() + count);
  for (int32_t cell : own.cells) {
    ++holders_[cell];
    if (own.pinned) add_pin(cell);
  }
}

void CellLedger::cut(int32_t sequence, int32_t count) {
  Sequence& own = sequences_[sequence];
  while (length(sequence) > count) {
    const int32_t cell = own.cells.back();
    if (own.pinned) drop_pin(cell);
    if (--holders_[cell] == 0) free_.push_back(cell);
    own.cells.pop_back();
    own.tokens.pop_back();
  }
}

void CellLedger::pin(int32_t sequence) {
  Sequence& own = sequences_[sequence];
  if (std::exchange(own.pinned, true)) return;
  for (int32_t cell : own.cells) add_pin(cell);
}

void CellLedger::unpin(int32_t sequence) {
  Sequence& own = sequences_[sequence];
  if (!std::exchange(own.pinned, false)) return;
  for (int32_t cell : own.cells) drop_pin(cell);
}

int32_t CellLedger::pinned_within(int32_t sequence, int32_t count) const {
  const auto& cells = sequences_[sequence].cells;
  return static_cast<int32_t>(
      std::count_if(cells.begin(), cells.begin() + count, [&](int32_t cell) { return pins_[cell] > 0; }));
}

}  // namespace serving
