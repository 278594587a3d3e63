#include "runtime/rpc/grpc/client_call.h"

namespace rayo::rpc {
namespace {

base::Status missed(const char* why) {
  return base::fiber_cancelled() ? absl::CancelledError("cancelled") : absl::DeadlineExceededError(why);
}

}  // namespace

ClientCall::ClientCall(base::Loop& loop, Translate translate)
    : loop_(loop), translate_(std::move(translate)), read_(loop), write_(loop) {}

ClientCall::~ClientCall() {
  if (!held_ && !done_.is_set()) return;  // never started
  if (!done_.is_set()) context_.TryCancel();
  end().IgnoreError();
}

void ClientCall::start(grpc::GenericStub& stub, const std::string& path, base::TimePoint deadline) {
  if (deadline != base::kForever) context_.set_deadline(to_wall(deadline));
  stub.PrepareBidiStreamingCall(&context_, path, {}, this);
  AddHold();
  held_ = true;
  StartCall();
}

void ClientCall::OnDone(const grpc::Status& status) {
  loop_.defer([this, status] {
    status_ = translate_(status, context_);
    gone_.set();
    done_.set();
  });
}

// Lets the call end and waits for it: gRPC touches nothing of ours afterwards.
base::Status ClientCall::end() {
  if (std::exchange(held_, false)) RemoveHold();
  base::Shield shield;
  done_.wait();
  return status_;
}

base::Status ClientCall::broken() const {
  if (done_.is_set() && !status_.ok()) return status_;
  return base::failed(absl::StatusCode::kUnavailable, "the call has ended");
}

base::StatusOr<std::optional<std::string>> ClientCall::read(base::TimePoint deadline) {
  if (!held_) return status_.ok() ? base::StatusOr<std::optional<std::string>>(std::nullopt) : status_;
  if (!reading_) {
    reading_ = true;
    read_.begin();
    StartRead(&incoming_);
  }
  if (!read_.wait(deadline)) return missed("nothing came in time");  // goes on, for the next read()
  reading_ = false;
  if (read_.ok()) return std::optional<std::string>(to_string(incoming_));
  base::Status status = end();
  if (!status.ok()) return status;
  return std::optional<std::string>();
}

// Of what write_ has begun; the caller holds writer_.
base::Status ClientCall::await_write(base::TimePoint deadline) {
  if (!write_.wait(deadline)) {
    base::Status why = missed("the other side does not read");
    context_.TryCancel();
    base::Shield shield;
    write_.wait(base::kForever);
    write_failed_ = true;
    return why;
  }
  if (write_.ok()) return absl::OkStatus();
  write_failed_ = true;
  gone_.set();
  return broken();
}

base::Status ClientCall::write(std::string message, base::TimePoint deadline) {
  if (!writer_.acquire(deadline)) return missed("the other side does not read");
  base::Status result;
  if (!held_ || write_failed_) {
    result = broken();
  } else {
    outgoing_ = to_buffer(std::move(message));
    write_.begin();
    StartWrite(&outgoing_);
    result = await_write(deadline);
  }
  writer_.release();
  return result;
}

base::Status ClientCall::write_last(std::string message) {
  if (base::Status status = write(std::move(message), base::kForever); !status.ok()) return status;
  return writes_done(base::kForever);
}

base::Status ClientCall::writes_done(base::TimePoint deadline) {
  if (!writer_.acquire(deadline)) return missed("the other side does not read");
  base::Status result;
  if (!held_ || write_failed_) {
    result = broken();
  } else {
    write_.begin();
    StartWritesDone();
    result = await_write(deadline);
  }
  writer_.release();
  return result;
}

base::Status ClientCall::finish(base::TimePoint deadline) {
  while (held_) {
    auto message = read(deadline);
    if (message.ok()) continue;
    if (!held_) break;  // that was the end, with an error
    context_.TryCancel();
    end().IgnoreError();
    return message.status();
  }
  return status_;
}

}  // namespace rayo::rpc
