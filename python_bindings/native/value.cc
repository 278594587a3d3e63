#include "python_bindings/native/value.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "python_bindings/native/errors.h"
#include "python_bindings/native/portable.h"

namespace rayo::python {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kMaxPlainDepth = 32;

// The module that holds the picklers, imported once it is needed.
py::module_& serialization() {
  static auto* const module = new py::module_(py::module_::import("rayo._serialization"));  // as long as the process
  return *module;
}

constexpr std::byte kZeros[kAlignment] = {};

size_t aligned(size_t at) { return (at + kAlignment - 1) / kAlignment * kAlignment; }

class BufferView {
 public:
  explicit BufferView(py::handle source) {
    if (PyObject_GetBuffer(source.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  }
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  const std::byte* data() const { return static_cast<const std::byte*>(view_.buf); }
  size_t size() const { return static_cast<size_t>(view_.len); }

 private:
  Py_buffer view_{};
};

void note_inner(Encoder& out, const py::tuple& pickled) {
  internal::Backend& current = internal::backend();
  for (py::handle ref : pickled[2]) out.inner_ref(ref.cast<Ref&>().counted.handle(current));
  for (py::handle actor : pickled[3]) {
    ActorId id;
    const auto bytes = actor.cast<std::string>();
    std::memcpy(&id, bytes.data(), std::min(bytes.size(), sizeof id));
    out.inner_actor(id);
  }
}

// (pickle, [buffer ...], [Ref ...], [actor id ...], [their handle ...]) of a value, its buffers held.
struct Pickled {
  explicit Pickled(py::handle value) : parts(serialization().attr("dumps")(value)), pickle(parts[0]) {
    for (py::handle buffer : parts[1]) buffers.push_back(std::make_unique<BufferView>(buffer));
  }
  const py::tuple parts;
  const BufferView pickle;
  std::vector<std::unique_ptr<BufferView>> buffers;
};

// Appends head, table and pickle; `put` is called with the padding before each buffer and the buffer itself.
template <class Put>
void lay_out(Encoder& out, const Pickled& pickled, Put&& put) {
  const BufferView& pickle = pickled.pickle;
  const auto& buffers = pickled.buffers;
  note_inner(out, pickled.parts);
  // Buffers are aligned from the start of the value; the string begins behind its tag (3 bytes) and its head (9).
  const size_t table = 8 + buffers.size() * 16;
  std::vector<uint64_t> places;
  const size_t start = out.view().size() + 3 + 9;
  size_t at = table + pickle.size();
  for (const auto& buffer : buffers) {
    at = aligned(start + at) - start;
    places.push_back(at);
    places.push_back(buffer->size());
    at += buffer->size();
  }
  out.tag(kPickleTag);
  // A head of nine bytes, whatever the size: Decoder takes it as it takes the shortest.
  std::byte head[9] = {std::byte{0x5b}};
  for (int i = 0; i < 8; ++i) head[1 + i] = static_cast<std::byte>(static_cast<uint64_t>(at) >> (56 - 8 * i));
  out.raw(head, sizeof head);
  const uint32_t counts[2] = {static_cast<uint32_t>(buffers.size()), static_cast<uint32_t>(pickle.size())};
  out.raw(counts, sizeof counts);
  out.raw(places.data(), places.size() * sizeof(uint64_t));
  out.raw(pickle.data(), pickle.size());
  size_t written = table + pickle.size();
  for (size_t i = 0; i < buffers.size(); ++i) {
    put(internal::Bytes(kZeros, places[2 * i] - written));
    put(internal::Bytes(buffers[i]->data(), buffers[i]->size()));
    written = places[2 * i] + buffers[i]->size();
  }
}

void encode_pickled(Encoder& out, py::handle value) {
  const Pickled pickled(value);
  lay_out(out, pickled, [&out](internal::Bytes part) { out.raw(part.data(), part.size()); });
}

py::object decode_pickled(Decoder& in, const py::object& owner) {
  const auto bytes = in.bytes();
  uint32_t counts[2];
  if (bytes.size() < sizeof counts) in.mismatch("a pickled value");
  std::memcpy(counts, bytes.data(), sizeof counts);
  const size_t table = 8 + size_t{counts[0]} * 16;
  if (table > bytes.size() || counts[1] > bytes.size() - table) in.mismatch("a pickled value");
  py::list buffers;
  for (uint32_t i = 0; i < counts[0]; ++i) {
    uint64_t place[2];
    std::memcpy(place, bytes.data() + 8 + i * 16, sizeof place);
    if (place[0] > bytes.size() || place[1] > bytes.size() - place[0]) in.mismatch("a pickled value");
    const auto* begin = reinterpret_cast<const char*>(bytes.data() + place[0]);
    if (owner.is_none())
      buffers.append(py::bytes(begin, place[1]));
    else
      buffers.append(serialization().attr("view")(owner, reinterpret_cast<uintptr_t>(begin), place[1]));
  }
  const auto pickle = py::memoryview::from_memory(const_cast<std::byte*>(bytes.data() + table),
                                                  static_cast<py::ssize_t>(counts[1]), true);
  return serialization().attr("loads")(pickle, buffers);
}

py::object decode_plain(Decoder& in, const py::object& owner, int depth) {
  using internal::Major;
  if (depth > kMaxPlainDepth) in.mismatch("at most 32 levels");
  if (in.take_null()) return py::none();
  switch (in.peek()) {
    case Major::kUnsigned:
      return py::int_(in.unsigned_integer());
    case Major::kNegative:
      return py::int_(in.integer());
    case Major::kBytes: {
      const auto bytes = in.bytes();
      return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    case Major::kText: {
      const auto text = in.text();
      return py::str(text.data(), text.size());
    }
    case Major::kArray: {
      const uint64_t items = in.array();
      py::list list;
      for (uint64_t i = 0; i < items; ++i) list.append(decode_plain(in, owner, depth + 1));
      return list;
    }
    case Major::kMap: {
      const uint64_t pairs = in.map();
      py::dict dict;
      for (uint64_t i = 0; i < pairs; ++i) {
        py::object key = decode_plain(in, owner, depth + 1);
        if (py::isinstance<py::list>(key)) key = py::tuple(key);  // a pair or the like of C++
        dict[key] = decode_plain(in, owner, depth + 1);
      }
      return dict;
    }
    case Major::kTag:
      if (in.take_tag(kPickleTag)) return decode_pickled(in, owner);
      if (in.take_tag(kErrorTag)) {
        const py::object error = take_error(in);
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
        throw py::error_already_set();
      }
      if (in.take_tag(internal::kPortableTag)) return decode_plain(in, owner, depth);
      return decode_tagged(in);
    default:
      break;
  }
  if (in.take_raw("\xf5", 1)) return py::bool_(true);
  if (in.take_raw("\xf4", 1)) return py::bool_(false);
  return py::float_(in.real());
}

}  // namespace

bool encode_plain(Encoder& out, py::handle value) {
  PyObject* object = value.ptr();
  if (object == Py_None) return out.null(), true;
  if (object == Py_True || object == Py_False) return out.boolean(object == Py_True), true;
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return false;
    return out.integer(number), true;
  }
  if (PyFloat_CheckExact(object)) return out.real(PyFloat_AS_DOUBLE(object)), true;
  if (PyUnicode_CheckExact(object)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) return PyErr_Clear(), false;  // lone surrogates
    return out.text({text, static_cast<size_t>(size)}), true;
  }
  if (PyBytes_CheckExact(object)) {
    const auto* bytes = reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(object));
    return out.bytes({bytes, static_cast<size_t>(PyBytes_GET_SIZE(object))}), true;
  }
  return false;
}

Ref put_value(py::handle value) {
  Encoder out;
  if (encode_plain(out, value)) {
    py::gil_scoped_release release;
    return {internal::put_object(out)};
  }
  const Pickled pickled(value);
  std::vector<internal::Bytes> parts(1);
  lay_out(out, pickled, [&parts](internal::Bytes part) { parts.push_back(part); });
  parts[0] = out.view();
  internal::Backend& backend = internal::backend();
  py::gil_scoped_release release;
  return {internal::CountedRef(backend, backend.put(parts, out.inner_refs(), out.inner_actors()))};
}

std::chrono::nanoseconds span_of(const py::object& seconds) {
  using std::chrono::nanoseconds;
  if (seconds.is_none()) return nanoseconds(-1);
  const double span = std::max(0.0, seconds.cast<double>());
  return span > 1e9 ? nanoseconds(-1) : nanoseconds(static_cast<int64_t>(span * 1e9));
}

void encode_value(Encoder& out, py::handle value) {
  if (!encode_plain(out, value)) encode_pickled(out, value);
}

py::object decode_value(Decoder& in, const py::object& owner) { return decode_plain(in, owner, 0); }

}  // namespace rayo::python
