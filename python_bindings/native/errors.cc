#include "python_bindings/native/errors.h"

#include <pybind11/stl.h>

#include "python_bindings/native/value.h"

namespace rayo::python {
namespace {

// What a program printed or threw need not be UTF-8, and a str holds nothing else.
py::str text_of(std::string_view bytes) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

py::object death_of(const DeathRecord* death) {
  if (death == nullptr) return py::none();
  py::dict record;
  record["node"] = death->node.hex();
  record["pid"] = death->pid;
  record["kind"] = name_of(death->kind);
  record["exit_code"] = death->exit_code;
  record["signal"] = death->signal;
  record["core_dumped"] = death->core_dumped;
  record["rss_peak_bytes"] = death->rss_peak_bytes;
  record["text"] = text_of(death->text);
  py::list lines;
  for (const std::string& line : death->last_log_lines) lines.append(text_of(line));
  record["last_log_lines"] = lines;
  return record;
}

}  // namespace

ErrorRecord record_of(const std::string& what, py::handle error) {
  // (type name, one line, traceback text, pickled exception)
  const py::tuple told = py::module_::import("rayo.exceptions").attr("_describe")(error);
  ErrorRecord record{.kind = ErrorKind::kTask};
  record.remote_type = told[0].cast<std::string>();
  const auto line = told[1].cast<std::string>();
  record.text = what + " raised " + record.remote_type + (line.empty() ? "" : ": " + line);
  record.stack = told[2].cast<std::string>();
  record.payload = told[3].cast<std::string>();
  return record;
}

void throw_remote(const std::string& what, py::error_already_set& error) {
  if (error.trace()) PyException_SetTraceback(error.value().ptr(), error.trace().ptr());
  throw TaskError(record_of(what, error.value()));
}

py::object exception_of(const ErrorRecord& record) {
  const DeathRecord* death = record.death ? &*record.death : nullptr;
  return py::module_::import("rayo.exceptions")
      .attr("_of")(static_cast<int>(record.kind), text_of(record.text), text_of(record.next_step),
                   text_of(record.remote_type), text_of(record.stack), py::bytes(record.payload), death_of(death));
}

void encode_error(Encoder& out, const ErrorRecord& record) {
  out.tag(kErrorTag);
  out.array(7);
  out.unsigned_integer(static_cast<uint64_t>(record.kind));
  out.text(record.text);
  out.text(record.next_step);
  out.text(record.remote_type);
  out.text(record.stack);
  out.bytes(std::as_bytes(std::span(record.payload)));
  encode_value(out, death_of(record.death ? &*record.death : nullptr));
}

py::object take_error(Decoder& in) {
  in.array_of(7);
  const auto kind = static_cast<int>(in.unsigned_integer());
  const py::str text = text_of(in.text());
  const py::str next_step = text_of(in.text());
  const py::str remote_type = text_of(in.text());
  const py::str stack = text_of(in.text());
  const auto payload = in.bytes();
  return py::module_::import("rayo.exceptions")
      .attr("_of")(kind, text, next_step, remote_type, stack,
                   py::bytes(reinterpret_cast<const char*>(payload.data()), payload.size()),
                   decode_value(in, py::none()));
}

void set_error(const ErrorRecord& record) {
  const py::object exception = exception_of(record);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

void raise(const ErrorRecord& record) {
  set_error(record);
  throw py::error_already_set();
}

}  // namespace rayo::python
