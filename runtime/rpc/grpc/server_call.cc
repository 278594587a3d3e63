#include "runtime/rpc/grpc/server_call.h"

namespace rayo::rpc {
namespace {

base::Status caller_gone() { return base::failed(absl::StatusCode::kCancelled, "the caller is gone"); }

// Why a wait returned without what it waited for.
base::Status missed(const char* why) {
  return base::fiber_cancelled() ? absl::CancelledError("shutting down") : absl::DeadlineExceededError(why);
}

}  // namespace

ServerCall::ServerCall(base::Loop& loop, grpc::CallbackServerContext& context)
    : loop_(loop),
      context_(context),
      peer_(peer_of(*context.auth_context())),
      deadline_(from_wall(context.deadline())),
      read_(loop),
      write_(loop) {}

void ServerCall::OnCancel() {
  loop_.defer([this] { gone_.set(); });
}

void ServerCall::OnDone() {
  loop_.defer([this] { done_.set(); });
}

base::StatusOr<std::optional<std::string>> ServerCall::read(base::TimePoint deadline) {
  if (read_ended_) return std::optional<std::string>();
  if (!reading_) {
    reading_ = true;
    read_.begin();
    StartRead(&incoming_);
  }
  if (!read_.wait(deadline)) return missed("nothing came in time");  // goes on, for the next read()
  reading_ = false;
  if (read_.ok()) return std::optional<std::string>(to_string(incoming_));
  read_ended_ = true;
  if (gone_.is_set() || context_.IsCancelled()) return caller_gone();
  return std::optional<std::string>();
}

base::Status ServerCall::write(std::string message, base::TimePoint deadline) {
  if (!writer_.acquire(deadline)) return missed("the caller does not read");
  base::Status result;
  if (gone_.is_set()) {
    result = caller_gone();
  } else {
    outgoing_ = to_buffer(std::move(message));
    write_.begin();
    StartWrite(&outgoing_);
    if (!write_.wait(deadline)) {
      result = missed("the caller does not read");
      context_.TryCancel();
      base::Shield shield;
      write_.wait(base::kForever);
    } else if (!write_.ok()) {
      result = caller_gone();
    }
  }
  writer_.release();
  return result;
}

base::Status ServerCall::write_last(std::string message) {
  last_ = to_buffer(std::move(message));
  return absl::OkStatus();
}

void ServerCall::finish(const base::Status& status) {
  if (!status.ok()) context_.AddTrailingMetadata(kNextStepKey, base::next_step(status));
  if (status.ok() && last_) {
    StartWriteAndFinish(&*last_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    Finish(to_grpc(status));
  }
  base::Shield shield;
  done_.wait();
}

}  // namespace rayo::rpc
