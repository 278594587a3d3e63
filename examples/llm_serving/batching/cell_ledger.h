// Which cells of the KV cache hold what: one cell is one token at one place of one or more sequences. Exact: used() is
// what libllama's unified cache holds after the same changes.
//
// Invariants: (1) a cell is held by at least one sequence or is free; (2) used() <= cells(); (3) pinned() counts the
// cells that at least one pinned sequence holds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "examples/llm_serving/protocol.h"

namespace serving {

class CellLedger {
 public:
  CellLedger(int32_t cells, int32_t sequences);

  int32_t cells() const { return static_cast<int32_t>(holders_.size()); }
  int32_t used() const { return cells() - free(); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t pinned() const { return pinned_; }
  const std::vector<Token>& tokens(int32_t sequence) const { return sequences_[sequence].tokens; }
  int32_t length(int32_t sequence) const { return static_cast<int32_t>(sequences_[sequence].tokens.size()); }

  // At the end of a sequence; needs as many free cells.
  void append(int32_t sequence, std::span<const Token> tokens);
  // The first `count` tokens of `from` also become those of `to`, which is empty.
  void share(int32_t from, int32_t to, int32_t count);
  // Keeps the first `count` tokens.
  void cut(int32_t sequence, int32_t count);
  // A pinned sequence is in use: its cells cannot be had by evicting idle ones.
  void pin(int32_t sequence);
  void unpin(int32_t sequence);
  bool is_pinned(int32_t sequence) const { return sequences_[sequence].pinned; }
  // Of the first `count` cells of a sequence: those that are pinned.
  int32_t pinned_within(int32_t sequence, int32_t count) const;

 private:
  struct Sequence {
    std::vector<Token> tokens;
    std::vector<int32_t> cells;
    bool pinned = false;
  };
  void drop_pin(int32_t cell);
  void add_pin(int32_t cell);

  std::vector<Sequence> sequences_;
  std::vector<int32_t> holders_;  // of each cell: sequences
  std::vector<int32_t> pins_;     // of each cell: pinned sequences
  std::vector<int32_t> free_;
  int32_t pinned_ = 0;
};

}  // namespace serving
