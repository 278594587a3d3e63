#include "python_bindings/native/streams.h"

#include <vector>

#include <rayo/internal/entry.h>
#include <rayo/stream.h>

#include "python_bindings/native/errors.h"
#include "python_bindings/native/signals.h"

namespace rayo::python {
namespace {

using internal::StreamReading;
using internal::StreamWriting;

constexpr size_t kLargeItem = 100u << 10;
// How far a generator may be ahead of its reader.
constexpr uint32_t kWindow = 1024;
constexpr int64_t kWindowBytes = 64 << 20;

Ref put_encoded(const Encoder& encoded) {
  py::gil_scoped_release release;
  return {internal::put_object(encoded)};
}

struct Item {
  std::vector<std::byte> bytes;
  internal::CountedRef ref;
};

// Under no lock, without the GIL: the item is gone when this returns.
void keep_item(void* context, const internal::ValueView& view) {
  auto& item = *static_cast<Item*>(context);
  Decoder in(view.bytes, "an item of a generator");
  if (in.peek() == internal::Major::kTag) {
    Decoder tag(view.bytes, "an item of a generator");
    if (tag.take_tag(internal::kInnerRefTag)) {
      item.ref = internal::decode_ref(in);
      return;
    }
  }
  item.bytes.assign(view.bytes.begin(), view.bytes.end());
}

}  // namespace

const char* ItemWriter::write(py::handle value, const py::object& timeout) {
  if (call_.cancelled()) return "cancelled";
  Encoder encoded;
  encode_value(encoded, value);
  if (encoded.view().size() <= kLargeItem && encoded.inner_refs().empty() && encoded.inner_actors().empty())
    return send(encoded, timeout);
  const Ref whole = put_encoded(encoded);
  Encoder item;
  internal::encode_ref(item, whole.counted);
  return send(item, timeout);
}

const char* ItemWriter::send(const Encoder& item, const py::object& timeout) {
  auto wrote = StreamWriting::Wrote::kFull;
  wait_for(span_of(timeout), [&](std::chrono::nanoseconds span) {
    wrote = end_->write(item.view(), item.inner_refs(), item.inner_actors(), span);
    return wrote != StreamWriting::Wrote::kFull;
  });
  return wrote == StreamWriting::Wrote::kTaken ? "taken" : wrote == StreamWriting::Wrote::kFull ? "full" : "cancelled";
}

void ItemWriter::fail(const ErrorRecord& error) {
  if (!call_.cancelled()) {
    Encoder item;
    encode_error(item, error);
    send(item, py::none());
  }
  close();
}

void ItemWriter::close() {
  py::gil_scoped_release release;
  end_->end(nullptr);
}

std::shared_ptr<ItemWriter> answer_with_stream(internal::Invocation& call) {
  py::gil_scoped_release release;
  internal::MadeStream made = internal::make_stream({.window = kWindow, .window_bytes = kWindowBytes});
  Encoder answer;
  internal::encode_stream(answer, made.reading.get());
  internal::finish_result(call, answer);
  call.open->answer_now();
  return std::make_shared<ItemWriter>(std::move(made.writing), *call.open);
}

ItemReader::ItemReader(const Ref& answer) {
  internal::Backend& backend = internal::backend();
  const internal::ObjectHandle handle = answer.counted.handle(backend);
  const auto open = [](void* context, const internal::ValueView& view) {
    if (view.error != nullptr) throw_error(*view.error);
    Decoder in(view.bytes, "the answer of a generator");
    *static_cast<std::unique_ptr<StreamReading>*>(context) = internal::decode_stream(in);
  };
  py::gil_scoped_release release;
  if (!backend.get(handle, std::chrono::nanoseconds(0), open, &end_))
    internal::throw_timeout(handle.id, std::chrono::nanoseconds(0));
}

py::object ItemReader::next(const py::object& timeout) {
  if (broken_) return py::none();
  Item item;
  auto got = StreamReading::Got::kNothing;
  try {
    wait_for(span_of(timeout), [&](std::chrono::nanoseconds span) {
      got = end_->next(span, keep_item, &item);
      return got != StreamReading::Got::kNothing;
    });
  } catch (const Error& error) {
    broken_ = true;
    if (error.record().kind == ErrorKind::kCancelled) throw;
    Encoder encoded;
    encode_error(encoded, error.record());
    return py::cast(put_encoded(encoded));
  }
  if (got == StreamReading::Got::kNothing) return py::bool_(false);
  if (got == StreamReading::Got::kEnd) return py::none();
  if (item.ref) return py::cast(Ref{std::move(item.ref)});
  const internal::Bytes bytes = item.bytes;
  py::gil_scoped_release release;
  internal::Backend& backend = internal::backend();
  Ref ref{internal::CountedRef(backend, backend.put({&bytes, 1}, {}, {}))};
  py::gil_scoped_acquire acquire;
  return py::cast(std::move(ref));
}

void ItemReader::cancel() {
  py::gil_scoped_release release;
  end_->cancel();
}

}  // namespace rayo::python
