// Stream<T>: items that are made in one place and read, one by one, in another, while both go on.
//
//   struct Engine {                                               // an actor
//     rayo::StreamWriter<Event> out;
//     rayo::Stream<Event> listen() {
//       auto [writer, stream] = rayo::make_stream<Event>({.window = 64});
//       out = std::move(writer);
//       return std::move(stream);
//     }
//   };
//   rayo::Stream<Event> events = engine.call<&Engine::listen>().get();
//   while (auto event = events.next()) show(*event);              // or: for (const Event& event : events)
//
// The writer stays where it was made. The Stream is returned, passed or put inside of a value, and is read by
// exactly one reader, in any process of the cluster: it is moved, never copied; of one that is decoded twice
// (an ObjectRef that is read twice) the first to ask for an item gets them all. Items arrive in order, none is
// lost and none comes twice. They flow while a method of the maker runs: its mailbox is not needed.
//
// Nothing is unbounded: an item is written while fewer than `window` items and `window_bytes` bytes of others
// are not yet taken by next().
//
// Ends. The reader is told each of these after the items that were written before: close() or the end of the
// writer (next() answers nothing), fail() (next() throws that error), the death of the maker's process
// (ActorDied or Unavailable, with the record). The writer is told (cancelled(), and write() answers false) when
// the reader's Stream is destroyed or cancelled, its process dies, or the value that held the Stream is dropped
// unread. A stream that an actor made ends with that actor.
//
// Threads: one at a time reads; any may write, close and cancel, also at the same time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <rayo/codec.h>
#include <rayo/object.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {

struct StreamOptions {
  uint32_t window = 64;            // items
  int64_t window_bytes = 4 << 20;  // of encoded items
};

namespace internal {

// Invalid for an empty writer or stream.
[[noreturn]] void refuse_empty_stream();
[[noreturn]] void throw_stream_timeout(const char* what, std::chrono::nanoseconds timeout);
MadeStream make_stream(const StreamOptions& options);
void encode_stream(Encoder& out, StreamReading* stream);
std::unique_ptr<StreamReading> decode_stream(Decoder& in);
ErrorRecord record_of_exception(const std::exception& error);
std::chrono::nanoseconds seam_timeout(std::chrono::nanoseconds timeout);

}  // namespace internal

template <class T>
class StreamWriter {
 public:
  StreamWriter() = default;  // writes nowhere
  explicit StreamWriter(std::unique_ptr<internal::StreamWriting> end) : end_(std::move(end)) {}
  // Destroying one that was neither closed nor failed closes it.

  // Waits while the window is full. False: nobody reads any more. Throws Timeout when the time is over, Invalid
  // after close() and for an item over 15 MiB (rayo::put it and write the ref).
  bool write(const T& item, std::chrono::nanoseconds timeout = kForever) {
    const auto wrote = send(item, internal::seam_timeout(timeout));
    if (wrote == internal::StreamWriting::Wrote::kFull) internal::throw_stream_timeout("write", timeout);
    return wrote == internal::StreamWriting::Wrote::kTaken;
  }
  // Never waits. False: the window is full, or nobody reads any more.
  bool try_write(const T& item) {
    return send(item, std::chrono::nanoseconds(0)) == internal::StreamWriting::Wrote::kTaken;
  }

  bool cancelled() const { return end().cancelled(); }
  // No more items will come. A second time, and after fail(), without effect; the same for fail().
  void close() { end().end(nullptr); }
  // The reader's next(), after the items before, throws this.
  void fail(const ErrorRecord& error) { end().end(&error); }
  void fail(const std::exception& error) { fail(internal::record_of_exception(error)); }

  explicit operator bool() const { return end_ != nullptr; }

 private:
  internal::StreamWriting& end() const {
    if (end_ == nullptr) internal::refuse_empty_stream();
    return *end_;
  }
  internal::StreamWriting::Wrote send(const T& item, std::chrono::nanoseconds timeout) {
    Encoder encoded;
    encode(encoded, item);
    return end().write(encoded.view(), encoded.inner_refs(), encoded.inner_actors(), timeout);
  }

  std::unique_ptr<internal::StreamWriting> end_;
};

template <class T>
class Stream {
 public:
  using value_type = T;

  Stream() = default;  // reads from nowhere
  explicit Stream(std::unique_ptr<internal::StreamReading> end) : end_(std::move(end)) {}
  // Destroying one that was not passed on cancels.

  // The next item; nothing at the end. Throws Timeout when the time is over (the stream goes on), what the
  // writer failed with, ActorDied or Unavailable when the maker has died, Cancelled after cancel(), Invalid
  // where another one reads or this one was passed on.
  std::optional<T> next(std::chrono::nanoseconds timeout = kForever) {
    if (end_ == nullptr) internal::refuse_empty_stream();
    std::optional<T> item;
    const auto got = end_->next(internal::seam_timeout(timeout), internal::read_into<T>, &item);
    if (got == internal::StreamReading::Got::kNothing) internal::throw_stream_timeout("next", timeout);
    return item;
  }

  // No more items are wanted: the writer is told.
  void cancel() {
    if (end_ != nullptr) end_->cancel();
  }

  explicit operator bool() const { return end_ != nullptr; }

  // for (T& item : stream)
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = T;

    explicit Iterator(Stream& stream) : stream_(&stream), item_(stream.next()) {}
    T& operator*() const { return *item_; }
    Iterator& operator++() {
      item_ = stream_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& at, std::default_sentinel_t) { return !at.item_; }

   private:
    Stream* stream_;
    mutable std::optional<T> item_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

  internal::StreamReading* reading() const { return end_.get(); }

 private:
  std::unique_ptr<internal::StreamReading> end_;
};

template <class T>
struct StreamPair {
  StreamWriter<T> writer;
  Stream<T> stream;
};

// Any thread. Throws Invalid for a window of 0.
template <class T>
StreamPair<T> make_stream(const StreamOptions& options = {}) {
  static_assert(Value<T>, "rayo: a stream's items must be able to travel (<rayo/codec.h>)");
  internal::MadeStream made = internal::make_stream(options);
  return {StreamWriter<T>(std::move(made.writing)), Stream<T>(std::move(made.reading))};
}

template <class T>
struct Codec<Stream<T>> {
  static void encode(Encoder& out, const Stream<T>& stream) { internal::encode_stream(out, stream.reading()); }
  static Stream<T> decode(Decoder& in) { return Stream<T>(internal::decode_stream(in)); }
};

}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
