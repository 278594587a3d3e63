// Which Python runs the workers of a Python driver: of one machine's interpreter the file alone would be of no use on
// another, so unlike other programs it does not travel (packages, package_store.h).
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace rayo::raylet {

// Whether a job with these arguments is that of a Python driver (python_bindings/rayo/_worker.py).
bool of_python(const std::vector<std::string>& arguments);

// This node's own (`rayo start --python`) where one was given; else the driver's path, where it is here; else `python3`
// in the folders of `search` (PATH). NotFound: there is none, with where it was looked for.
base::StatusOr<std::string> find_interpreter(const std::string& own, const std::string& drivers,
                                             const std::string& search);

}  // namespace rayo::raylet
