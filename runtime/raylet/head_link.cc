#include "runtime/raylet/head_link.h"

#include <algorithm>
#include <chrono>
#include <pthread.h>

#include "runtime/base/config.h"
#include "runtime/base/log.h"
#include "runtime/base/loop/signals.h"
#include "runtime/base/text.h"
#include "runtime/rpc/grpc/methods.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

// Suspect after 1 s: one may be lost and the next come 330 ms late. Beats are most of what an idle node uses.
constexpr base::Duration kBeatEach = 332ms;
constexpr base::Duration kBeatLimit = 1s;
constexpr base::Duration kAttachLimit = 5s;
constexpr base::Duration kBackoffFirst = 50ms;
constexpr base::Duration kBackoffMost = 2s;
constexpr base::Duration kAskAgain = 100ms;  // a question that a broken connection took with it
constexpr base::Duration kTryFor = 24h;      // a raylet whose head is gone

}  // namespace

base::Status status_of(const proto::Failure& failure) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  if (failure.kind() == proto::UNAVAILABLE) code = absl::StatusCode::kUnavailable;
  if (failure.kind() == proto::TIMEOUT) code = absl::StatusCode::kDeadlineExceeded;
  if (failure.kind() == proto::INVALID) code = absl::StatusCode::kFailedPrecondition;
  return base::failed(code, failure.text(), failure.next_step());
}

proto::Failure failure_of(const base::Status& status) {
  proto::Failure failure;
  bool late = status.code() == absl::StatusCode::kDeadlineExceeded;
  bool wrong = status.code() == absl::StatusCode::kInvalidArgument || status.code() == absl::StatusCode::kNotFound;
  failure.set_kind(late ? proto::TIMEOUT : wrong ? proto::INVALID : proto::UNAVAILABLE);
  failure.set_text(std::string(base::message(status)));
  failure.set_next_step(base::next_step(status));
  return failure;
}

HeadLink::HeadLink(base::Loop& loop, rpc::TlsDial dial, NodeLife me)
    : loop_(loop),
      me_(me),
      addresses_(base::join(dial.addresses, ", ")),
      channel_(rpc::Channel::tls(std::move(dial))) {}

HeadLink::~HeadLink() {
  stop_ = true;
  beat_loop_.stop();
  if (beats_.joinable()) beats_.join();
}

base::StatusOr<proto::Registered> HeadLink::attach(base::TimePoint deadline) {
  auto stream = channel_->open(rpc::head::kAttach);
  proto::NodeUp up;
  *up.mutable_register_() = handlers_.make_register();
  RAYO_RETURN_IF_ERROR(stream->write(up, deadline));
  auto first = stream->read(deadline);
  if (!first.ok()) return first.status();
  if (!*first) {
    base::Status why = stream->finish(deadline);
    return why.ok() ? base::failed(absl::StatusCode::kUnavailable, "the head ended the stream") : why;
  }
  if (!(*first)->has_registered())
    return base::failed(absl::StatusCode::kInternal, "the head's first message is no Registered");
  const auto& registered = (*first)->registered();
  if (registered.failure().kind() != proto::FAILURE_UNSPECIFIED) return status_of(registered.failure());
  stream_ = std::move(stream);
  outgoing_.set_away(false);
  away_until_ = base::kForever;
  patience_ =
      base::Config::from_head({registered.config().begin(), registered.config().end()}).duration("head.patience");
  saw_head();
  if (last_report_) outgoing_.push(*std::exchange(last_report_, std::nullopt));
  return registered;
}

// Without a head the last report of resources is all that will be of use: a busy node makes a hundred a second.
void HeadLink::send(proto::NodeUp message) {
  if (!stream_ && message.has_resources()) {
    last_report_ = std::move(message);
  } else if (!outgoing_.push(std::move(message)) && stream_) {
    base::log().warn("the head does not read: its stream is opened again");
    stream_->cancel();
  }
}

void HeadLink::run() {
  tasks_->spawn("head", [this] { keep_attached(); });
  beats_ = std::thread([this] {
    base::block_signals_in_this_thread();
    pthread_setname_np(pthread_self(), "rayo-beat");
    beat_loop_.spawn("beats", [this] { beat(); });
    beat_loop_.run();
  });
}

void HeadLink::keep_attached() {
  base::TimePoint give_up = loop_.deadline(kTryFor);
  base::Duration backoff = kBackoffFirst;
  while (!base::fiber_cancelled()) {
    if (stream_) {
      serve();
      away_until_ = loop_.deadline(patience_);
      give_up = loop_.deadline(kTryFor);
      backoff = kBackoffFirst;
      if (!stop_) base::log().warn("the head is away; trying for 24 h");
    }
    if (!base::sleep_for(backoff)) return;
    backoff = std::min(backoff * 2, kBackoffMost);
    auto registered = attach(loop_.deadline(kAttachLimit));
    if (registered.ok()) {
      base::log().info("attached to the head again");
      handlers_.registered(*registered);
    } else if (registered.status().code() == absl::StatusCode::kFailedPrecondition) {
      return handlers_.ended(std::string(base::message(registered.status())));
    } else if (loop_.now() > give_up) {
      return handlers_.ended("no head for 24 hours");
    }
  }
}

// Until the stream breaks: one fiber writes, this one reads.
void HeadLink::serve() {
  {
    base::TaskGroup writer;
    writer.spawn("head writer", [this] {
      while (auto message = outgoing_.pop()) {
        if (stream_->write(*message).ok()) continue;
        outgoing_.put_back(std::move(*message));
        break;
      }
    });
    while (true) {
      auto message = stream_->read();
      if (!message.ok() || !*message) break;
      saw_head();
      handlers_.message(std::move(**message));
    }
    stream_->cancel();
  }
  stream_.reset();
  outgoing_.set_away(true);
}

void HeadLink::leave(const std::string& reason, base::TimePoint deadline) {
  if (stream_) {
    proto::NodeUp up;
    up.mutable_leave()->set_reason(reason);
    outgoing_.push(std::move(up));
    while (!outgoing_.empty() && stream_ && loop_.now() < deadline && base::sleep_for(1ms)) {
    }
    base::sleep_for(20ms);  // for gRPC to bring the last message out before the stream is cut
  }
  stop_ = true;
  tasks_->cancel();
  tasks_->join(deadline);
}

base::Status HeadLink::gone(std::string_view cause) const {
  auto away = base::system_clock().wall() - last_seen();
  return base::failed(
      absl::StatusCode::kUnavailable,
      base::cat("the head at ", addresses_, " has not answered for ",
                std::chrono::duration_cast<std::chrono::seconds>(away).count(), " s", cause.empty() ? "" : ": ", cause),
      "calls to living actors go on; `rayo status` tells whether the head is back");
}

template <class Request, class Reply>
base::StatusOr<Reply> HeadLink::ask(const rpc::UnaryMethod<Request, Reply>& method, const Request& request,
                                    base::TimePoint deadline) {
  if (given_up()) return gone({});
  while (true) {
    auto reply = channel_->call(method, request, deadline);
    if (reply.ok() || reply.status().code() != absl::StatusCode::kUnavailable) return reply;
    // Its stream breaks, too, or is open again: away_until_ follows.
    if (given_up() || loop_.now() >= deadline || !base::sleep_for(kAskAgain))
      return gone(base::message(reply.status()));
  }
}

base::StatusOr<proto::RelayReply> HeadLink::relay(const proto::RelayRequest& request, base::TimePoint deadline) {
  return ask(rpc::head::kRelay, request, deadline);
}

base::StatusOr<proto::PlaceLeasesReply> HeadLink::place_leases(const proto::PlaceLeasesRequest& request,
                                                               base::TimePoint deadline) {
  return ask(rpc::head::kPlaceLeases, request, deadline);
}

void HeadLink::saw_head() { last_seen_ = base::system_clock().wall().time_since_epoch().count(); }

// A thread and a loop of its own, so that a busy loop is no death. One stream for all beats: a call for each costs an
// idle node twice as much.
void HeadLink::beat() {
  while (!base::fiber_cancelled()) {
    (void)beat_on_one_stream();
    base::sleep_for(kBeatEach);
  }
}

base::Status HeadLink::beat_on_one_stream() {
  auto stream = channel_->open(rpc::head::kBeat);
  proto::BeatRequest request;
  rpc::to_proto(me_.id, request.mutable_node());
  request.set_incarnation(me_.incarnation);
  do {
    request.set_number(request.number() + 1);
    const base::TimePoint limit = beat_loop_.deadline(kBeatLimit);
    RAYO_RETURN_IF_ERROR(stream->write(request, limit));
    RAYO_ASSIGN_OR_RETURN(auto reply, stream->read(limit));
    if (!reply) return stream->finish(limit);
    heard(*reply);
  } while (base::sleep_for(kBeatEach));
  return absl::OkStatus();
}

void HeadLink::heard(const proto::BeatReply& reply) {
  saw_head();
  if (read_only_.exchange(reply.read_only()) != reply.read_only())
    base::log().warn("the head {}", reply.read_only() ? "is read_only: actors begin when it has written them down"
                                                      : "takes changes again");
  if (stop_) return;
  if (reply.replaced()) {
    loop_.post([this] { handlers_.ended("another raylet took this node's place"); });
    beat_loop_.stop();
  } else if (!reply.known()) {
    loop_.post([this] {
      if (stream_) stream_->cancel();  // and register again
    });
  }
}

}  // namespace rayo::raylet
