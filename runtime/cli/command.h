// The commands of `rayo`, each a function of its arguments: one file each, listed in app.cc.
#pragma once

#include "runtime/cli/flags.h"
#include "runtime/cli/terminal.h"

namespace rayo::cli {

int start_command(const Arguments& arguments, Terminal& terminal);
int stop_command(const Arguments& arguments, Terminal& terminal);
int status_command(const Arguments& arguments, Terminal& terminal);
int list_command(const Arguments& arguments, Terminal& terminal);
int why_command(const Arguments& arguments, Terminal& terminal);
int logs_command(const Arguments& arguments, Terminal& terminal);
int config_command(const Arguments& arguments, Terminal& terminal);
int doctor_command(const Arguments& arguments, Terminal& terminal);
int token_command(const Arguments& arguments, Terminal& terminal);
int version_command(const Arguments& arguments, Terminal& terminal);

}  // namespace rayo::cli
