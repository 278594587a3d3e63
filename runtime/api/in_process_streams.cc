// The part of InProcess that carries streams: one queue each, bounded by its window.
#include <rayo/stream.h>

#include "runtime/api/in_process.h"

namespace rayo::api {

using internal::Bytes;
using internal::ObjectHandle;

class InProcess::Writing final : public internal::StreamWriting {
 public:
  Writing(InProcess& world, LocalStream& stream) : world_(world), stream_(stream) {}
  ~Writing() override {
    const Lock lock(world_.lock_);
    if (!world_.running_) return;
    stream_.writer = false;
    stream_.ended = true;
    world_.notify();
    if (!stream_.marker) world_.streams_.erase(&stream_);
  }

  Wrote write(Bytes item, std::span<const ObjectHandle> refs, std::span<const ActorId> actors,
              std::chrono::nanoseconds timeout) override {
    const Until end = until(timeout);
    Lock lock(world_.lock_);
    world_.check_running();
    const bool settled = world_.wait_for(
        lock, [this] { return stream_.room() || stream_.cancelled || stream_.ended; }, end);
    if (stream_.ended && !stream_.error)
      throw Invalid({.kind = ErrorKind::kInvalid, .text = "a stream was written to after it was closed"});
    if (stream_.cancelled || stream_.ended) return Wrote::kCancelled;
    if (!settled) return Wrote::kFull;
    LocalStream::Item made{.value = {item.begin(), item.end()}};
    for (const ObjectHandle& ref : refs) {
      made.inner.push_back(static_cast<Object*>(ref.slot));
      ++made.inner.back()->count;
    }
    for (const ActorId& actor : actors) {
      ++world_.actor_of(actor).count;
      made.inner_actors.push_back(actor);
    }
    stream_.bytes += static_cast<int64_t>(item.size());
    stream_.items.push_back(std::move(made));
    world_.notify();
    return Wrote::kTaken;
  }

  bool cancelled() override {
    const Lock lock(world_.lock_);
    world_.check_running();
    return stream_.cancelled;
  }

  void end(const ErrorRecord* error) override {
    const Lock lock(world_.lock_);
    world_.check_running();
    if (std::exchange(stream_.ended, true)) return;
    if (error != nullptr) stream_.error = *error;
    world_.notify();
  }

 private:
  InProcess& world_;
  LocalStream& stream_;
};

class InProcess::Reading final : public internal::StreamReading {
 public:
  // Takes over one count of the marker.
  Reading(InProcess& world, Object& marker, const internal::StreamAddress& address)
      : world_(world), marker_(marker), address_(address) {}
  ~Reading() override {
    const Lock lock(world_.lock_);
    if (!world_.running_) return;
    if (reads()) world_.cancel_items(*marker_.stream);
    world_.drop(&marker_);
  }

  Got next(std::chrono::nanoseconds timeout, internal::ValueReader read, void* context) override {
    const Until end = until(timeout);
    Lock lock(world_.lock_);
    world_.check_running();
    LocalStream& stream = *marker_.stream;
    if (given_) refuse("a Stream was read after it was passed on");
    if (cancelled_) throw Cancelled({.kind = ErrorKind::kCancelled, .text = "the stream was cancelled by its reader"});
    if (stream.reader == nullptr) stream.reader = this;
    if (stream.reader != this) refuse("the stream has another reader, or had one that is gone");
    if (!world_.wait_for(
            lock, [&] { return !stream.items.empty() || stream.ended || cancelled_; }, end))
      return Got::kNothing;
    if (stream.items.empty() && stream.error) throw_error(*stream.error);
    if (stream.items.empty()) return Got::kEnd;
    LocalStream::Item item = std::move(stream.items.front());
    stream.items.pop_front();
    stream.bytes -= static_cast<int64_t>(item.value.size());
    world_.notify();
    lock.unlock();
    const auto drop = [this](LocalStream::Item* read_item) {
      const Lock again(world_.lock_);
      if (world_.running_) world_.let_go(std::move(*read_item));
    };
    const std::unique_ptr<LocalStream::Item, decltype(drop)> inside(&item, drop);
    read(context, {item.value, nullptr});
    return Got::kItem;
  }

  void cancel() override {
    const Lock lock(world_.lock_);
    if (!world_.running_ || given_ || std::exchange(cancelled_, true)) return;
    if (marker_.stream->reader == nullptr) marker_.stream->reader = this;
    if (reads()) world_.cancel_items(*marker_.stream);
  }

  internal::GivenStream give() override {
    const Lock lock(world_.lock_);
    world_.check_running();
    if (given_ || cancelled_ || marker_.stream->reader != nullptr)
      refuse("a Stream can be passed on once, and before it is read");
    given_ = true;
    return {address_, {marker_.id, &marker_}};
  }

 private:
  bool reads() const { return marker_.stream->reader == this; }
  [[noreturn]] static void refuse(const char* text) {
    throw Invalid({.kind = ErrorKind::kInvalid,
                   .text = text,
                   .next_step = "make a stream for each reader, and read it where it was passed to"});
  }

  InProcess& world_;
  Object& marker_;
  const internal::StreamAddress address_;
  bool given_ = false;
  bool cancelled_ = false;
};

internal::MadeStream InProcess::make_stream(const StreamOptions& options) {
  const ActorId maker = context().actor;
  const Lock lock(lock_);
  check_running();
  auto made = std::make_unique<LocalStream>();
  LocalStream& stream = *made;
  stream.window = options.window;
  stream.window_bytes = options.window_bytes;
  stream.maker = maker;
  streams_.emplace(&stream, std::move(made));
  Object* marker = new_object();
  marker->ready = true;
  marker->stream = &stream;
  return {std::make_unique<Writing>(*this, stream),
          std::make_unique<Reading>(*this, *marker, internal::StreamAddress{.marker = marker->id})};
}

std::unique_ptr<internal::StreamReading> InProcess::open_stream(const internal::StreamAddress& address) {
  Object* marker = static_cast<Object*>(adopt(address.marker).slot);
  const Lock lock(lock_);
  if (marker->stream == nullptr) {
    drop(marker);
    throw TypeMismatch({.kind = ErrorKind::kTypeMismatch, .text = "an object that is no stream was read as one"});
  }
  return std::make_unique<Reading>(*this, *marker, address);
}

void InProcess::let_go(LocalStream::Item item) {
  for (Object* object : item.inner) drop(object);
  for (const ActorId& actor : item.inner_actors) drop_actor(actor);
}

void InProcess::cancel_items(LocalStream& stream) {
  stream.cancelled = true;
  for (LocalStream::Item& item : std::exchange(stream.items, {})) let_go(std::move(item));
  stream.bytes = 0;
  notify();
}

void InProcess::marker_gone(LocalStream& stream) {
  cancel_items(stream);
  stream.marker = false;
  if (!stream.writer) streams_.erase(&stream);
}

void InProcess::end_streams_of(const Actor& actor) {
  for (auto& [key, stream] : streams_) {
    if (stream->maker != actor.id || stream->ended) continue;
    stream->ended = true;
    stream->error = actor.death;
  }
}

}  // namespace rayo::api
