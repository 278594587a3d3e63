// The logs of this machine's daemons, read from their files: also where nothing runs any more.
#pragma once

#include "runtime/base/session.h"
#include "runtime/cli/terminal.h"

namespace rayo::cli {

struct DaemonLogs {
  std::string which;  // "" all, "head", "node-1"
  int64_t tail = -1;  // lines; -1: all
  bool follow = false;
  bool json = false;
};

// Returns the exit code; with `follow` it ends when the reader of our output goes, or by Ctrl-C.
int print_daemon_logs(const base::Session& session, const DaemonLogs& wanted, Terminal& terminal);

base::StatusOr<int64_t> parse_line_count(std::string_view text);

}  // namespace rayo::cli
