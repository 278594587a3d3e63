// Calls by name (<rayo/internal/by_name.h>): of actors and functions in C++, from here. Of actors in Python from elsewhere:
// functions.h.
#pragma once

#include <pybind11/pybind11.h>

namespace rayo::python {

void define_named(pybind11::module_& module);

}  // namespace rayo::python
