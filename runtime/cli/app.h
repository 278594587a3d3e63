// The program `rayo`: finds the command and runs it. `rayo X` where X is not built in runs the program
// `rayo-X`, beside this one or on PATH, with the rest of the arguments.
#pragma once

#include "runtime/cli/flags.h"
#include "runtime/cli/terminal.h"

namespace rayo::cli {

// argv without the program's name. Returns the exit code.
int run(const Arguments& arguments, Terminal& terminal);

}  // namespace rayo::cli
