#include "runtime/raylet/interpreter.h"

#include "runtime/base/programs.h"
#include "runtime/base/text.h"

namespace rayo::raylet {

bool of_python(const std::vector<std::string>& arguments) {
  return arguments.size() == 3 && arguments[1] == "-m" && arguments[2] == "rayo._worker";
}

base::StatusOr<std::string> find_interpreter(const std::string& own, const std::string& drivers,
                                             const std::string& search) {
  constexpr std::string_view kNextStep = "install Python on the node, or name one with `rayo start --python PATH`";
  if (!own.empty()) {
    if (std::string found = base::find_program(own, search); !found.empty()) return found;
    return base::failed(absl::StatusCode::kNotFound,
                        base::cat("no Python for its workers: ", own, " is not there any more"), kNextStep);
  }
  if (std::string found = base::find_program(drivers, search); !found.empty()) return found;
  if (std::string found = base::find_program("python3", search); !found.empty()) return found;
  return base::failed(
      absl::StatusCode::kNotFound,
      base::cat("no Python for its workers: neither the driver's ", drivers, " nor a python3 on PATH is here"),
      kNextStep);
}

}  // namespace rayo::raylet
