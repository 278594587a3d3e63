// rayo.get. A function of the native part, so that the traceback of what it raises goes from the user's line to what the
// user's code raised elsewhere, without a frame of ours between them.
#pragma once

#include <chrono>
#include <pybind11/pybind11.h>

namespace rayo::python {

namespace py = pybind11;

// The value of a Ref, or raises what stands in its place. The bytes live as long as the ref is counted, so views over them
// do too.
py::object value_of(const py::object& ref, std::chrono::nanoseconds timeout);

// Adds `get`, as rayo/__init__.pyi has it. (pybind11's functions cannot be pickled, and this one may be a global that a
// user's function names.)
void define_get(py::module_& module);

}  // namespace rayo::python
