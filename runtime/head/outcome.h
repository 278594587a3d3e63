// What an event leads to: rows to be written first, then messages to nodes and answers to requests, in this order. The
// deciding classes of the head only ever make these; the shell (CommitLine) does them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include <rayo/id.h>

#include "runtime/head/control_store.h"
#include "runtime/proto/head.pb.h"

namespace rayo::head {

struct Send {
  NodeId to;  // nil: every attached node
  proto::NodeDown message;
};

// To the request for leases with this ticket.
struct LeaseAnswer {
  uint64_t ticket = 0;
  NodeId node;  // that granted
  proto::PlaceLeasesReply reply;
};

struct Outcome {
  Batch persist;
  std::vector<Send> sends;
  std::vector<LeaseAnswer> answers;

  proto::NodeDown& send(NodeId to) { return sends.emplace_back(Send{to, {}}).message; }
  bool empty() const { return persist.empty() && sends.empty() && answers.empty(); }
  void append(Outcome&& other) {
    persist.append(std::move(other.persist));
    std::ranges::move(other.sends, std::back_inserter(sends));
    std::ranges::move(other.answers, std::back_inserter(answers));
  }
};

}  // namespace rayo::head
