#include "runtime/worker/cluster_streams.h"

#include <utility>

#include "runtime/base/text.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {

using internal::ObjectHandle;

// An item stays below a frame's limit with what else is in it.
constexpr size_t kMaxItem = 15u << 20;

base::TimePoint deadline_of(const Traffic& traffic, std::chrono::nanoseconds timeout) {
  return timeout.count() < 0 ? base::kForever : base::deadline_after(traffic.clock().now(), timeout);
}

class Writing final : public internal::StreamWriting {
 public:
  Writing(ClusterBackend& backend, uint64_t number) : backend_(backend), number_(number) {}
  ~Writing() override {
    const ClusterBackend::Hold hold = backend_.enter_to_release();
    if (!hold) return;
    traffic().streams().writer_gone(number_);
    traffic().finish_turn();
  }

  Wrote write(internal::Bytes item, std::span<const ObjectHandle> refs, std::span<const ActorId> actors,
              std::chrono::nanoseconds timeout) override {
    const size_t bytes = item.size() + refs.size() * sizeof(ObjectId) + actors.size() * sizeof(ActorId);
    if (bytes > kMaxItem)
      throw_error(error_record(
          ErrorKind::kInvalid,
          base::cat("an item of a stream has ", bytes, " bytes with the ids of what is in it; it carries ", kMaxItem),
          "rayo::put the large value and write the ref"));
    if (!actors.empty()) backend_.settle(actors);
    const ClusterBackend::Hold hold = backend_.enter();
    OutgoingStream& stream = traffic().streams().outgoing(number_);
    auto enough = [&stream] { return stream.room() || stream.cancelled() || stream.ended(); };
    if (!enough() && timeout.count() == 0) {  // room may be in a frame that nobody has looked at
      traffic().engine().poll();
      traffic().engine().wake();
    } else if (!enough()) {
      backend_.wait_until(enough, deadline_of(traffic(), timeout), stream.reader());
    }
    if (stream.ended()) throw_error(error_record(ErrorKind::kInvalid, "a stream was written to after it was closed"));
    if (stream.cancelled()) return Wrote::kCancelled;
    if (!stream.room()) return Wrote::kFull;
    StreamItem made{.value = {item.begin(), item.end()}};
    for (const ObjectHandle& ref : refs) ObjectTable::retain(slot_of(ref));
    made.inner.refs.assign(refs.begin(), refs.end());
    traffic().retain_actors(actors);
    if (!actors.empty()) made.inner.actors = std::make_unique<std::vector<ActorId>>(actors.begin(), actors.end());
    traffic().streams().write(number_, std::move(made));
    traffic().finish_turn();
    return Wrote::kTaken;
  }

  bool cancelled() override {
    const ClusterBackend::Hold hold = backend_.enter();
    return traffic().streams().outgoing(number_).cancelled();
  }

  void end(const ErrorRecord* error) override {
    const ClusterBackend::Hold hold = backend_.enter();
    traffic().streams().end(number_, error);
    traffic().engine().wake();  // a thread that waits for room
    traffic().finish_turn();
  }

 private:
  Traffic& traffic() { return backend_.traffic(); }

  ClusterBackend& backend_;
  const uint64_t number_;
};

class Reading final : public internal::StreamReading {
 public:
  // Takes over one handle of the marker. The baton is held.
  Reading(ClusterBackend& backend, const internal::StreamAddress& address, ObjectSlot& marker)
      : backend_(backend), marker_(&marker), number_(backend.traffic().streams().read(address)) {}
  ~Reading() override {
    const ClusterBackend::Hold hold = backend_.enter_to_release();
    if (!hold) return;
    traffic().streams().reader_gone(number_);
    release_marker();
    traffic().finish_turn();
  }

  Got next(std::chrono::nanoseconds timeout, internal::ValueReader read, void* context) override {
    StreamItem item;
    {
      const ClusterBackend::Hold hold = backend_.enter();
      if (given_)
        throw_error(error_record(ErrorKind::kInvalid, "a Stream was read after it was passed on",
                                 "read it where it was passed to"));
      IncomingStream& stream = traffic().streams().incoming(number_);
      stream.open();
      auto readable = [&stream] { return stream.readable(); };
      if (!readable() && !backend_.wait_until(readable, deadline_of(traffic(), timeout), stream.link()))
        return Got::kNothing;
      auto taken = stream.take();
      traffic().finish_turn();
      if (!taken && stream.error()) throw_error(*stream.error());
      if (!taken) return Got::kEnd;
      item = *std::move(taken);
    }
    const auto drop = [this](StreamItem* read_item) {
      if (!read_item->has_inner()) return;
      if (const ClusterBackend::Hold hold = backend_.enter_to_release(); hold) {
        traffic().streams().let_go_of(std::move(read_item->inner));
        traffic().finish_turn();
      }
    };
    const std::unique_ptr<StreamItem, decltype(drop)> inside(&item, drop);  // until whoever decodes it counts it
    read(context, {item.value, nullptr});
    return Got::kItem;
  }

  void cancel() override {
    const ClusterBackend::Hold hold = backend_.enter_to_release();
    if (!hold || given_) return;
    traffic().streams().incoming(number_).cancel();
    release_marker();
    traffic().engine().wake();
    traffic().finish_turn();
  }

  internal::GivenStream give() override {
    const ClusterBackend::Hold hold = backend_.enter();
    IncomingStream& stream = traffic().streams().incoming(number_);
    if (given_ || !marker_ || stream.opened())
      throw_error(error_record(ErrorKind::kInvalid, "a Stream can be passed on once, and before it is read",
                               "make a stream for each reader"));
    given_ = true;
    return {stream.address(), marker_->handle()};
  }

 private:
  Traffic& traffic() { return backend_.traffic(); }
  void release_marker() {
    if (marker_) traffic().table().release(*marker_);
    marker_ = nullptr;
  }

  ClusterBackend& backend_;
  ObjectSlot* marker_;
  const uint64_t number_;
  bool given_ = false;
};

}  // namespace

internal::MadeStream make_stream(ClusterBackend& backend, const StreamOptions& options,
                                 const internal::StreamAddress& here) {
  const ClusterBackend::Hold hold = backend.enter();
  ObjectSlot& marker = backend.traffic().streams().make({options.window, options.window_bytes});
  internal::StreamAddress address = here;
  address.marker = marker.id;
  return {std::make_unique<Writing>(backend, marker.id.counter), std::make_unique<Reading>(backend, address, marker)};
}

std::unique_ptr<internal::StreamReading> open_stream(ClusterBackend& backend, const internal::StreamAddress& address) {
  ObjectSlot& marker = slot_of(backend.adopt(address.marker));
  const ClusterBackend::Hold hold = backend.enter();
  return std::make_unique<Reading>(backend, address, marker);
}

}  // namespace rayo::worker
