// Whether the head knows of the handles that this node has told it of. Holds go up its stream without an answer; who has
// to know that they have come asks for a mark, a number that goes behind them and that the head sends back. Nobody asks
// for most of them, so a hold by itself costs no answer. Decides only; the shell sends. One owner (the loop thread).
//
//   marks.told();                                    // a hold went up
//   auto mark = marks.ask(); if (mark.fresh) send(mark.number); ... until marks.known(mark.number)
//   marks.heard(number);                             // the head sent it back
//   send(every hold, marks.told_again());            // after the stream was opened again
#pragma once

#include <algorithm>
#include <cstdint>

namespace rayo::raylet {

class HoldMarks {
 public:
  struct Mark {
    uint64_t number = 0;  // 0: known from the start
    bool fresh = false;   // nobody has sent it yet
  };

  void told() { unmarked_ = true; }
  Mark ask() {
    if (!unmarked_) return {last_, false};
    unmarked_ = false;
    return {++last_, true};
  }
  // Marks of before went with the broken stream, or what stood before them did: this one stands for them all.
  uint64_t told_again() {
    unmarked_ = false;
    return oldest_ = ++last_;
  }
  void heard(uint64_t number) {
    if (number >= oldest_) known_ = std::max(known_, number);
  }
  bool known(uint64_t number) const { return number <= known_; }

 private:
  bool unmarked_ = false;
  uint64_t last_ = 0;
  uint64_t oldest_ = 0;
  uint64_t known_ = 0;
};

}  // namespace rayo::raylet
