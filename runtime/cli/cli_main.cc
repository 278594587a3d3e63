// rayo: the command line. See app.h.
#include <csignal>
#include <iostream>
#include <unistd.h>

#include "runtime/cli/app.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a daemon that dies while we speak to it is an error, not our end
  rayo::cli::Terminal terminal(std::cout, std::cerr, isatty(STDOUT_FILENO) == 1);
  int code = rayo::cli::run({argv + 1, argv + argc}, terminal);
  std::cout.flush();
  return code;
}
