#include "runtime/worker/incoming_stream.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {
// How long a broken link waits for the reason: longer than a node takes to be known as dead (design: 10 s).
constexpr base::Duration kVerdict = std::chrono::seconds(15);
// Between two looks at what became of the maker, and two tries to reach it.
constexpr base::Duration kRetry = std::chrono::milliseconds(200);
// How long after the news of a death the link may still hand over items; its own end comes sooner as a rule.
constexpr base::Duration kLastItems = std::chrono::milliseconds(30);
}  // namespace

IncomingStream::~IncomingStream() {
  for (StreamItem& item : std::exchange(items_, {})) let_go(wires_, std::move(item.inner));
  wires_.calls.disconnect(*this);
}

std::string IncomingStream::who() const {
  return address_.actor ? base::cat("the actor ", address_.actor.hex().substr(0, 8), " that made a stream")
                        : base::cat("the process ", address_.process.hex().substr(0, 8), " that made a stream");
}

void IncomingStream::open() {
  if (state_ != State::kFresh) return;
  state_ = State::kLinking;
  proto::ProcessAddress maker;
  set_id(maker.mutable_node(), address_.node);
  set_id(maker.mutable_process(), address_.process);
  wires_.calls.connect(maker, *this);
}

rpc::FrameHeader IncomingStream::frame(rpc::FrameKind kind) const {
  rpc::FrameHeader header;
  header.kind = kind;
  header.flags = rpc::kFlagUrgent;  // the maker may be in a long method
  header.call_id = address_.marker.counter;
  header.target = number_;
  header.sequence = taken_;
  header.function = bytes_taken_;
  return header;
}

void IncomingStream::tell(rpc::FrameKind kind) { wires_.calls.send(link_, frame(kind), {}); }

// The same once the homes know of our handles (3); this stream may be gone by then.
void IncomingStream::tell_confirmed(rpc::FrameKind kind) {
  wires_.confirm([&wires = wires_, link = link_, header = frame(kind)] { wires.calls.send(link, header, {}); });
}

std::optional<StreamItem> IncomingStream::take() {
  if (items_.empty()) return std::nullopt;
  StreamItem item = std::move(items_.front());
  items_.pop_front();
  bytes_here_ -= item.value.size();
  ++taken_;
  bytes_taken_ += item.value.size();
  const bool due = taken_ - credited_ >= std::max(1u, address_.window / 4) ||
                   bytes_taken_ - bytes_credited_ >= static_cast<uint64_t>(address_.window_bytes) / 4;
  if (!due && !item.has_inner()) return item;
  credited_ = taken_;
  bytes_credited_ = bytes_taken_;
  if (left_ || link_ == kNoPeer) return item;
  had_inner_ ? tell_confirmed(rpc::FrameKind::kStreamCredit) : tell(rpc::FrameKind::kStreamCredit);
  return item;
}

void IncomingStream::leave() {
  if (link_ == kNoPeer || std::exchange(left_, true)) return;
  had_inner_ ? tell_confirmed(rpc::FrameKind::kStreamCancel) : tell(rpc::FrameKind::kStreamCancel);
}

void IncomingStream::cancel() {
  leave();
  for (StreamItem& item : std::exchange(items_, {})) let_go(wires_, std::move(item.inner));
  bytes_here_ = 0;
  error_ = error_record(ErrorKind::kCancelled, "the stream was cancelled by its reader");
  finish(std::nullopt);
}

void IncomingStream::finish(std::optional<ErrorRecord> error) {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  over_ = true;
  if (!error_) error_ = std::move(error);
  last_word_.reset();
  wires_.calls.disconnect(*this);
}

// ---- frames ----

void IncomingStream::on_item(const rpc::FrameHeader& header, ByteView body) {
  if (state_ != State::kOpen) return;
  StreamItem item;
  ByteView value = body;
  bool honest = header.sequence == received_ + 1 && items_.size() < address_.window &&
                bytes_here_ < static_cast<uint64_t>(address_.window_bytes);
  if (honest && header.flags & kSectionFlags) {
    auto view = read_body(header.flags, body);
    honest = view.has_value();
    if (honest) {
      for (const ObjectId& id : view->refs) item.inner.refs.push_back(wires_.adopt(id).handle());
      if (!view->actors.empty()) {
        wires_.calls.retain_actors(view->actors);
        item.inner.actors = std::make_unique<std::vector<ActorId>>(view->actors);
      }
      value = view->rest;
    }
  }
  had_inner_ |= item.has_inner();
  if (!honest) {
    leave();
    return finish(error_record(ErrorKind::kInternal, base::cat(who(), " sent item ", header.sequence, " where ",
                                                               received_ + 1, " was due, or more than its window")));
  }
  ++received_;
  item.value.assign(value.begin(), value.end());
  bytes_here_ += item.value.size();
  items_.push_back(std::move(item));
}

void IncomingStream::on_end(const rpc::FrameHeader& header, ByteView body) {
  if (state_ != State::kOpen) return;
  std::optional<ErrorRecord> error;
  if (header.flags & rpc::kFlagFailure) {
    proto::Failure failure;
    if (!failure.ParseFromArray(body.data(), static_cast<int>(body.size())))
      failure.set_text("a failure that cannot be read");
    error = record_of(failure);
  }
  if (!had_inner_) leave();  // else the maker keeps what is inside of items that are still to be taken
  finish(std::move(error));
}

// ---- the way to the maker ----

void IncomingStream::linked(PeerId peer) {
  if (state_ != State::kLinking) return;
  link_ = peer;
  state_ = State::kOpen;
  tell(rpc::FrameKind::kStreamOpen);
}

void IncomingStream::link_failed(const ErrorRecord& why) {
  if (state_ == State::kLinking) await_verdict(why);
}

void IncomingStream::link_lost() {
  if (state_ != State::kOpen) return;
  link_ = kNoPeer;
  lost_link_ = true;
  if (last_word_) return finish(std::move(last_word_));
  await_verdict(error_record(ErrorKind::kUnavailable, base::cat("the connection to ", who(), " broke"),
                             "`rayo status` shows whether its node is alive"));
}

void IncomingStream::peer_gone(const proto::DeathRecord& death) {
  if (state_ == State::kOver || state_ == State::kFresh) return;
  if (state_ != State::kOpen) return finish(died(death));
  last_word_ = died(death);
  wires_.calls.wake_at(wires_.calls.now() + kLastItems, *this);
}

// A link that never stood may be tried again; one that did may have lost items.
void IncomingStream::await_verdict(const ErrorRecord& why) {
  state_ = State::kLost;
  why_ = why;
  if (verdict_ == base::kForever) verdict_ = wires_.calls.now() + kVerdict;
  wires_.calls.wake_at(wires_.calls.now() + kRetry, *this);
}

void IncomingStream::on_deadline(base::TimePoint now) {
  if (state_ == State::kOpen && last_word_) return finish(std::move(last_word_));
  if (state_ != State::kLost) return;
  if (now >= verdict_) return finish(why_);
  if (address_.actor) wires_.look_up(address_.actor, number_);
  if (lost_link_) return wires_.calls.wake_at(now + kRetry, *this);
  state_ = State::kFresh;
  open();
}

void IncomingStream::on_maker(const proto::ActorInfo& info) {
  if (state_ != State::kLost && state_ != State::kLinking) return;
  const bool ended =
      info.state() == proto::DEAD || info.state() == proto::RESTARTING || info.incarnation() > address_.incarnation;
  if (ended) finish(died(info.death()));
}

ErrorRecord IncomingStream::died(const proto::DeathRecord& death) const {
  if (address_.actor) return actor_died(address_.actor.hex().substr(0, 8), death);
  ErrorRecord record = error_record(ErrorKind::kUnavailable, base::cat(who(), " is gone: ", death.text()));
  record.death = death_of(death);
  return record;
}

}  // namespace rayo::worker
