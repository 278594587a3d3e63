// What is on its way to the head, in order. While the head is away the oldest go where the rest would be more than kKeptAway
// bytes: which jobs, actors and handles there are is told again when it is back (HeadDispatch::registered). One loop.
#pragma once

#include <deque>
#include <optional>

#include "runtime/base/loop/event.h"
#include "runtime/proto/head.pb.h"

namespace rayo::raylet {

class HeadOutbox {
 public:
  static constexpr size_t kKeptAway = 4u << 20;
  // More than this and the head does not read: the stream is opened again.
  static constexpr size_t kMostUnread = 64u << 20;

  // False: more than kMostUnread waits.
  bool push(proto::NodeUp message);
  // Waits; nullopt: the fiber is cancelled.
  std::optional<proto::NodeUp> pop();
  // It could not be written: it goes first when the head is there again.
  void put_back(proto::NodeUp message);
  void set_away(bool away);
  bool empty() const { return messages_.empty(); }
  size_t bytes() const { return bytes_; }

 private:
  void trim();

  std::deque<proto::NodeUp> messages_;
  size_t bytes_ = 0;
  bool away_ = true;
  base::WaitList news_;
};

}  // namespace rayo::raylet
