// What a worker runs for Python callers: three functions of fixed names, which find the user's function or class in
// rayo._worker. Arguments on the wire: an array of
//
//   text   of a task "KEY", of a constructor "KEY", of a method its name
//   value  the arguments: an array of plain values and refs, or one pickled (args, kwargs) that names refs by index
//   refs   the ObjectRefs that stand for arguments (internal::kRefTag)
#pragma once

#include <pybind11/pybind11.h>

#include "python_bindings/native/value.h"

namespace rayo::python {

enum class Callee : uint8_t { kTask, kConstructor, kMethod };

uint64_t function_id(Callee callee);

// One call's arguments, encoded. `args` is a tuple, `kwargs` a dict; refs among args and the values of kwargs stand for
// their values.
class CallArguments {
 public:
  CallArguments(std::string_view name, const py::tuple& args, const py::dict& kwargs);
  internal::CallRequest request(Callee callee, std::chrono::nanoseconds timeout = {}) const;

 private:
  Encoder encoded_;
  std::vector<internal::ObjectHandle> refs_;
};

}  // namespace rayo::python
