#include "python_bindings/native/errors.h"

#include <pybind11/stl.h>

#include "python_bindings/native/value.h"

namespace rayo::python {
namespace {

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
  record["text"] = death->text;
  record["last_log_lines"] = py::cast(death->last_log_lines);
  return record;
}

}  // namespace

void throw_remote(const std::string& what, py::error_already_set& error) {
  if (error.trace()) PyException_SetTraceback(error.value().ptr(), error.trace().ptr());
  // (type name, one line, traceback text, pickled exception)
  const py::tuple told = py::module_::import("rayo.exceptions").attr("_describe")(error.value());
  ErrorRecord record{.kind = ErrorKind::kTask};
  record.remote_type = told[0].cast<std::string>();
  const auto line = told[1].cast<std::string>();
  record.text = what + " raised " + record.remote_type + (line.empty() ? "" : ": " + line);
  record.stack = told[2].cast<std::string>();
  record.payload = told[3].cast<std::string>();
  throw TaskError(std::move(record));
}

py::object exception_of(const ErrorRecord& record) {
  const DeathRecord* death = record.death ? &*record.death : nullptr;
  return py::module_::import("rayo.exceptions")
      .attr("_of")(static_cast<int>(record.kind), record.text, record.next_step, record.remote_type, record.stack,
                   py::bytes(record.payload), death_of(death));
}

void raise(const ErrorRecord& record) {
  const py::object exception = exception_of(record);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

}  // namespace rayo::python
