#include "runtime/base/version.h"

#include "runtime/cli/command.h"

namespace rayo::cli {

int version_command(const Arguments& arguments, Terminal& terminal) {
  bool json = false;
  Flags flags("version", "The version of this program");
  flags.on("--json", json, "one JSON document");
  if (auto done = flags.read(arguments, terminal)) return *done;
  if (json) {
    terminal.out() << "{\"schema\": 1, \"version\": \"" << base::kVersion << "\"}\n";
  } else {
    terminal.out() << "rayo " << base::kVersion << "\n";
  }
  return kDone;
}

}  // namespace rayo::cli
