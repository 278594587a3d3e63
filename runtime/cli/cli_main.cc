// rayo: the command line. See app.h.
#include <csignal>
#include <iostream>
#include <unistd.h>

#include "runtime/base/open_files.h"
#include "runtime/cli/app.h"
#include "runtime/cli/output.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a daemon that dies while we speak to it is an error, not our end
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a file that may not be as large (ulimit -f)
  rayo::base::hold_standard_descriptors();
  rayo::cli::Output output(STDOUT_FILENO);
  std::ostream out(&output);
  rayo::cli::Terminal terminal(out, std::cerr, isatty(STDOUT_FILENO) == 1);
  return output.finish(rayo::cli::run({argv + 1, argv + argc}, terminal), terminal);
}
