#include "python_bindings/native/portable.h"

#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include <rayo/actor.h>

#include "python_bindings/native/value.h"
#include "runtime/base/text.h"

namespace rayo::python {
namespace {

using base::cat;

// Numbers in one piece are CBOR's typed arrays (RFC 8746), little-endian: 0b010'f's'e'll of value_codec.h.
constexpr uint64_t kFirstArrayTag = 64;
constexpr uint64_t kLastArrayTag = 87;
constexpr uint64_t kFloatBit = 0b10000;
constexpr uint64_t kSignedBit = 0b1000;
constexpr uint64_t kLittleEndianBit = 0b100;

// The tag for numbers of that format (as of module struct) and size; nullopt: they have none.
std::optional<uint64_t> tag_of(std::string_view format, size_t size) {
  if (format.size() == 2 && (format[0] == '@' || format[0] == '<' || format[0] == '=')) format.remove_prefix(1);
  if (format.size() != 1 || !std::has_single_bit(size) || size > 8) return std::nullopt;
  const auto log = static_cast<uint64_t>(std::countr_zero(size));
  const uint64_t order = size > 1 ? kLittleEndianBit : 0;
  if (format == "f" || format == "d") return kFirstArrayTag | kFloatBit | kLittleEndianBit | (log - 1);
  if (std::string_view("bhilqn").find(format) != std::string_view::npos)
    return kFirstArrayTag | kSignedBit | order | log;
  if (std::string_view("HILQN").find(format) != std::string_view::npos) return kFirstArrayTag | order | log;
  return std::nullopt;
}

bool is_bytes(std::string_view format) { return format.empty() || format == "B" || format == "c"; }

// A buffer of numbers or bytes that lies in one piece; empty where the object has none.
class Numbers {
 public:
  explicit Numbers(py::handle source) {
    if (!PyObject_CheckBuffer(source.ptr())) return;
    held_ = PyObject_GetBuffer(source.ptr(), &view_, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) == 0;
    if (!held_) PyErr_Clear();  // in several pieces, or of something else than numbers
  }
  ~Numbers() {
    if (held_) PyBuffer_Release(&view_);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  bool held() const { return held_; }
  int dimensions() const { return view_.ndim; }
  std::string_view format() const { return view_.format == nullptr ? std::string_view() : view_.format; }
  size_t item_size() const { return static_cast<size_t>(view_.itemsize); }
  internal::Bytes bytes() const { return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)}; }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

bool has(py::handle value, const char* name) { return PyObject_HasAttrString(value.ptr(), name) != 0; }

bool is_dataclass(py::handle value) {
  return !PyType_Check(value.ptr()) && has(py::type::handle_of(value), "__dataclass_fields__");
}

py::object& actor_handle_type() {
  static auto* const type = new py::object(py::module_::import("rayo._actor").attr("ActorHandle"));
  return *type;
}

class PortableWriter {
 public:
  PortableWriter(Encoder& out, const std::string& what) : out_(out), what_(what) {}

  void write(py::handle value) {
    if (encode_plain(out_, value)) return;
    PyObject* object = value.ptr();
    if (PyLong_Check(object)) return write_int(value);
    if (PyFloat_Check(object)) return out_.real(PyFloat_AsDouble(object));
    if (PyUnicode_Check(object)) return write_text(value);
    if (PyDict_Check(object)) return write_dict(py::reinterpret_borrow<py::dict>(value));
    if (PyList_Check(object) || PyTuple_Check(object) || PyAnySet_Check(object)) return write_items(value);
    if (py::isinstance<Ref>(value)) return internal::encode_ref(out_, value.cast<Ref&>().counted);
    if (py::isinstance(value, actor_handle_type()))
      return internal::encode_actor(out_, value.attr("_actor").cast<Actor&>().counted);
    if (const Numbers numbers(value); numbers.held()) return write_numbers(value, numbers);
    if (is_dataclass(value)) return write_fields(value);
    if (has(value, "tolist")) return write(value.attr("tolist")());  // of NumPy, in several pieces
    if (PyIndex_Check(object)) return write_int(py::reinterpret_steal<py::object>(PyNumber_Index(object)));
    refuse(value, "which no other language knows");
  }

 private:
  void write_int(py::handle value) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow == 0) return out_.integer(number);
    const unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(value.ptr()) : 0;
    if (overflow > 0 && PyErr_Occurred() == nullptr) return out_.unsigned_integer(large);
    PyErr_Clear();
    refuse(value, "which has more than 64 bits");
  }
  void write_text(py::handle value) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (text == nullptr) {
      PyErr_Clear();
      refuse(value, "which is no Unicode text");
    }
    out_.text({text, static_cast<size_t>(size)});
  }
  void write_items(py::handle value) {
    const Nesting nesting(out_);
    out_.array(py::len(value));
    size_t index = 0;
    for (py::handle item : value) {
      const Step step(*this, cat("[", index++, "]"));
      write(item);
    }
  }
  void write_dict(const py::dict& dict) {
    const Nesting nesting(out_);
    out_.map(dict.size());
    for (auto [key, value] : dict) {
      const Step step(*this, cat("[", std::string(py::repr(key)), "]"));
      write(key);
      write(value);
    }
  }
  void write_fields(py::handle value) {
    const Nesting nesting(out_);
    const py::dict fields = py::type::handle_of(value).attr("__dataclass_fields__");
    out_.array(fields.size());
    for (auto [name, field] : fields) {
      const Step step(*this, cat(".", name.cast<std::string>()));
      write(value.attr(name));
    }
  }
  void write_numbers(py::handle value, const Numbers& numbers) {
    if (numbers.dimensions() == 1 && is_bytes(numbers.format())) return out_.bytes(numbers.bytes());
    const auto tag = tag_of(numbers.format(), numbers.item_size());
    if (numbers.dimensions() == 1 && tag) {
      out_.tag(*tag);
      return out_.bytes(numbers.bytes());
    }
    if (!has(value, "tolist")) refuse(value, cat("whose format '", numbers.format(), "' no other language knows"));
    write(value.attr("tolist")());
  }

  [[noreturn]] void refuse(py::handle value, const std::string& why) {
    std::string place;
    for (const std::string& part : path_) place += part;
    const auto type = py::type::handle_of(value).attr("__qualname__").cast<std::string>();
    const std::string subject = place.empty() ? what_ + " is" : cat(what_, ": ", place, " in it is");
    py::object error =
        py::module_::import("rayo.exceptions").attr("CrossLanguageError")(cat(subject, " of type ", type, ", ", why));
    error.attr("next_step") =
        "pass None, bool, int, float, str, bytes, or lists, tuples, dicts, sets, dataclasses and arrays of them";
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw py::error_already_set();
  }

  // Where in the value we are, for errors.
  class Step {
   public:
    Step(PortableWriter& writer, std::string part) : writer_(writer) { writer_.path_.push_back(std::move(part)); }
    ~Step() { writer_.path_.pop_back(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    PortableWriter& writer_;
  };

  Encoder& out_;
  const std::string& what_;
  std::vector<std::string> path_;
};

// Whether C++ reads it as something that has parts (value_codec.h), before which the mark of a portable value stands.
bool has_parts(py::handle value) {
  PyObject* object = value.ptr();
  if (PyList_Check(object) || PyTuple_Check(object) || PyDict_Check(object) || PyAnySet_Check(object)) return true;
  if (PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object)) return false;
  if (const Numbers numbers(value); numbers.held())
    return numbers.dimensions() > 1 || (numbers.dimensions() == 1 && !is_bytes(numbers.format()));
  return is_dataclass(value) || has(value, "tolist");
}

template <class Number>
py::list list_of(internal::Bytes bytes) {
  const size_t count = bytes.size() / sizeof(Number);
  py::list list(count);
  for (size_t i = 0; i < count; ++i) {
    Number number;
    std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
    list[i] = number;
  }
  return list;
}

py::object numbers_of(Decoder& in, uint64_t tag) {
  const internal::Bytes bytes = in.bytes();
  switch (tag) {
    case 72:
      return list_of<int8_t>(bytes);
    case 69:
      return list_of<uint16_t>(bytes);
    case 77:
      return list_of<int16_t>(bytes);
    case 70:
      return list_of<uint32_t>(bytes);
    case 78:
      return list_of<int32_t>(bytes);
    case 71:
      return list_of<uint64_t>(bytes);
    case 79:
      return list_of<int64_t>(bytes);
    case 85:
      return list_of<float>(bytes);
    case 86:
      return list_of<double>(bytes);
    default:
      in.mismatch("an array of numbers that Python knows");
  }
}

}  // namespace

void encode_portable(Encoder& out, py::handle value, const std::string& what) {
  if (encode_plain(out, value)) return;
  if (has_parts(value)) out.raw(internal::kPortableHead, sizeof internal::kPortableHead);
  PortableWriter(out, what).write(value);
}

py::object decode_tagged(Decoder& in) {
  const Decoder start = in;
  const uint64_t tag = in.tag();
  if (tag >= kFirstArrayTag && tag <= kLastArrayTag) return numbers_of(in, tag);
  in = start;
  if (tag == internal::kInnerRefTag) return py::cast(Ref{internal::decode_ref(in)});
  if (tag == internal::kActorTag)
    return py::module_::import("rayo._actor").attr("_foreign")(Actor{internal::decode_actor(in)});
  if (tag == internal::kStreamTag) in.mismatch("a value that Python knows: streams of C++ stay in C++");
  in.mismatch("a value that Python knows");
}

}  // namespace rayo::python
