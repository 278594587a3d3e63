// Options and records between Python's dicts and the public API's aggregates. Unknown keys raise TypeError.
#pragma once

#include <pybind11/pybind11.h>

#include <rayo/options.h>

namespace rayo::python {

namespace py = pybind11;

InitOptions init_options(const py::dict& options);
TaskOptions task_options(const py::dict& options);
ActorOptions actor_options(const py::dict& options);

py::list node_list();
py::dict context_record();
// Of this program's cluster, as this home knows it; None where it does not.
py::object head_address();

}  // namespace rayo::python
