#include "runtime/worker/raylet_link.h"

#include <utility>

#include "runtime/base/text.h"

namespace rayo::worker {

base::Status RayletLink::send(uint64_t call_id, const proto::ToRaylet& message, std::span<const int> fds) {
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kControl;
  header.call_id = call_id;
  message.SerializeToString(&buffer_);
  if (buffer_.size() > rpc::kMaxFrameBody)
    return base::failed(absl::StatusCode::kInvalidArgument,
                        base::cat("what is to be told to the raylet has ", buffer_.size(), " bytes; a frame carries ",
                                  rpc::kMaxFrameBody));
  engine_.send_raylet(header, std::as_bytes(std::span(buffer_)), fds);  // where the link broke, its end is told
  return absl::OkStatus();
}

void RayletLink::push(const proto::ToRaylet& message) {
  if (open()) (void)send(0, message, {});
}

uint64_t RayletLink::request(const proto::ToRaylet& message, Receive receive, std::span<const int> fds) {
  const uint64_t call_id = next_call_++;
  if (!open()) {
    std::vector<base::Fd> none;
    receive(closed_, none);
    return call_id;
  }
  if (base::Status sent = send(call_id, message, fds); !sent.ok()) {
    std::vector<base::Fd> none;
    receive(std::move(sent), none);
    return call_id;
  }
  open_.emplace(call_id, std::move(receive));
  return call_id;
}

RayletLink::Answer RayletLink::ask(const proto::ToRaylet& message, base::Duration timeout, std::span<const int> fds) {
  // Shared with the answer's receiver only while this waits: it is forgotten when the time is over.
  std::optional<Answer> got;
  const uint64_t call_id = request(
      message, [&got](Answer answer, std::vector<base::Fd>&) { got.emplace(std::move(answer)); }, fds);
  const auto over = [&] { return got.has_value() || !open(); };
  if (!engine_.wait_until(over, base::deadline_after(clock_.now(), timeout))) {
    forget(call_id);
    return base::failed(absl::StatusCode::kDeadlineExceeded,
                        base::cat("the raylet did not answer within ", base::fixed(base::seconds(timeout), 1), " s"),
                        "`rayo status` shows whether the node and the head are alive");
  }
  if (!got) return closed_;  // we have left
  return std::move(*got);
}

bool RayletLink::on_answer(uint64_t call_id, proto::ToWorker& message, std::vector<base::Fd>& fds) {
  if (call_id == 0) return false;
  auto found = open_.find(call_id);
  if (found == open_.end()) return true;  // its asker gave up
  Receive receive = std::move(found->second);
  open_.erase(found);
  receive(std::move(message), fds);
  return true;
}

void RayletLink::on_closed(const base::Status& why) {
  closed_ =
      base::failed(absl::StatusCode::kUnavailable, base::cat("the raylet of this node is gone: ", base::message(why)),
                   "`rayo status` shows the cluster's nodes; `rayo start` starts one here");
  auto open = std::exchange(open_, {});
  std::vector<base::Fd> none;
  for (auto& [call_id, receive] : open) receive(closed_, none);
}

void RayletLink::leave() {
  closed_ = base::failed(absl::StatusCode::kUnavailable, "this program has left its cluster", "call rayo::init again");
  open_.clear();
}

const proto::Failure* failure_in(const proto::ToWorker& message) {
  using M = proto::ToWorker;
  switch (message.message_case()) {
    case M::kHelloReply:
      return message.hello_reply().has_failure() ? &message.hello_reply().failure() : nullptr;
    case M::kPackageReply:
      return message.package_reply().has_failure() ? &message.package_reply().failure() : nullptr;
    case M::kDone:
      return message.done().has_failure() ? &message.done().failure() : nullptr;
    case M::kActorReply:
      return message.actor_reply().has_failure() ? &message.actor_reply().failure() : nullptr;
    case M::kPeerLink:
      return message.peer_link().has_failure() ? &message.peer_link().failure() : nullptr;
    case M::kObjectValue:
      return message.object_value().has_failure() ? &message.object_value().failure() : nullptr;
    case M::kObjectSpace:
      return message.object_space().has_failure() ? &message.object_space().failure() : nullptr;
    case M::kObjectPiece:
      return message.object_piece().has_failure() ? &message.object_piece().failure() : nullptr;
    case M::kKeyValueReply:
      return message.key_value_reply().has_failure() ? &message.key_value_reply().failure() : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace rayo::worker
