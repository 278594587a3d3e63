// This process's side of the conversation with its raylet: pushes, and requests whose answers come back by call id.
//
//   proto::ToRaylet message;
//   *message.mutable_find_actor() = ...;
//   auto reply = raylet.ask(message, deadline);       // waits and drives the engine meanwhile
//   raylet.request(message, [this](Answer answer) { ... });   // does not wait
//
// Everything under the baton. Once the link is closed every request, open or new, is answered with Unavailable.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/proto/worker.pb.h"
#include "runtime/worker/engine.h"

namespace rayo::worker {

class RayletLink {
 public:
  using Answer = base::StatusOr<proto::ToWorker>;
  // Under the baton, in the sink's callback: it must not wait.
  using Receive = std::function<void(Answer answer, std::vector<base::Fd>& fds)>;

  RayletLink(Engine& engine, const base::Clock& clock) : engine_(engine), clock_(clock) {}

  // Who might push more than a frame carries (rpc::kMaxFrameBody) looks first: it would not be sent.
  void push(const proto::ToRaylet& message);
  // The request's call id; `forget` it and a late answer is dropped. One that is longer than a frame is answered with
  // InvalidArgument at once.
  uint64_t request(const proto::ToRaylet& message, Receive receive, std::span<const int> fds = {});
  void forget(uint64_t call_id) { open_.erase(call_id); }
  // Waits for the answer. DeadlineExceeded names what was asked.
  Answer ask(const proto::ToRaylet& message, base::Duration timeout, std::span<const int> fds = {});

  // An answer goes to whoever asked: true. A push (call id 0) is the caller's to deal with: false.
  bool on_answer(uint64_t call_id, proto::ToWorker& message, std::vector<base::Fd>& fds);
  void on_closed(const base::Status& why);
  // By this process: open requests are forgotten, and only ask() answers.
  void leave();
  bool open() const { return closed_.ok(); }
  const base::Status& why_closed() const { return closed_; }
  bool waiting() const { return !open_.empty(); }

 private:
  base::Status send(uint64_t call_id, const proto::ToRaylet& message, std::span<const int> fds);

  Engine& engine_;
  const base::Clock& clock_;
  uint64_t next_call_ = 1;
  std::unordered_map<uint64_t, Receive> open_;
  base::Status closed_ = absl::OkStatus();
  std::string buffer_;
};

// The failure that a raylet's answer carries, as a status of the same meaning is not enough: kinds matter to users.
// Null where the answer carries none.
const proto::Failure* failure_in(const proto::ToWorker& message);

}  // namespace rayo::worker
