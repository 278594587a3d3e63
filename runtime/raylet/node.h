// One raylet at work: its parts, built in order and wired to each other. raylet_main.cc makes one; a test may
// make several.
//
//   Node node(loop, settings, std::move(start));
//   RAYO_RETURN_IF_ERROR(node.open());      // in a fiber: registers, listens
//   node.stop(grace);                       // leaves, ends every process of its tree
//
// Loop thread only; built and destroyed in a fiber.
#pragma once

#include <memory>
#include <optional>
#include <sys/resource.h>

#include "runtime/base/loop/event.h"
#include "runtime/raylet/node_start.h"
#include "runtime/rpc/grpc/port.h"

namespace rayo::raylet {

// What the steps of the start have brought.
struct NodeStart {
  OwnNode own;
  NodeOffer offer;
  rpc::JoinResult joined;
  std::unique_ptr<rpc::Port> port;
  std::optional<rlimit> open_files;  // of its workers, where it has taken more for itself
};

class Node {
 public:
  Node(base::Loop& loop, const base::RayletSettings& settings, NodeStart start);
  ~Node();

  base::StatusOr<proto::Registered> open();
  // Idempotent; the reason goes to the head and into records.
  void ask_to_stop(const std::string& reason);
  // Set by ask_to_stop, the CLI, the head, or the loss of the head.
  base::Event& stop_asked();
  const std::string& stop_reason() const;
  // How long its processes may take to end, once it was asked to stop.
  base::Duration end_limit() const;
  // Says goodbye to the head and ends every process.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rayo::raylet
