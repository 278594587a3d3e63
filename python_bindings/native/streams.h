// Items of generators. A worker writes them to a stream, whose reader gets a ref for each.
//
// An item is a value (value.h), or, where it is large or has refs inside, a CBOR ObjectRef of it. What the generator
// raised is an item too, a value that raises where it is read: the ref after the last good one raises, as in Ray.
#pragma once

#include <memory>
#include <pybind11/pybind11.h>

#include <rayo/internal/registry.h>

#include "python_bindings/native/value.h"

namespace rayo::python {

class ItemWriter {
 public:
  // `call` lives as long as anything is written.
  ItemWriter(std::unique_ptr<internal::StreamWriting> end, const internal::OpenCall& call)
      : end_(std::move(end)), call_(call) {}
  // "taken", "full" (the time passed) or "cancelled" (nobody reads any more, or the call is cancelled: its caller may
  // have gone before it knew of the stream). `timeout` None: for ever.
  const char* write(py::handle value, const py::object& timeout);
  // The reader's next ref raises this, and then there are no more.
  void fail(const ErrorRecord& error);
  void close();

 private:
  const char* send(const Encoder& item, const py::object& timeout);

  std::unique_ptr<internal::StreamWriting> end_;
  const internal::OpenCall& call_;
};

// Sends the answer of a call that makes items, while it goes on: a stream.
std::shared_ptr<ItemWriter> answer_with_stream(internal::Invocation& call);

class ItemReader {
 public:
  // Of the call's answer, which is there.
  explicit ItemReader(const Ref& answer);
  // A ref; None at the end; False where the time passed. What broke the stream (a death) is a last item that raises.
  py::object next(const py::object& timeout);
  void cancel();

 private:
  std::unique_ptr<internal::StreamReading> end_;
  bool broken_ = false;
};

}  // namespace rayo::python
