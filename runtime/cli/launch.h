// Starting one daemon under its keeper, and waiting for what it says on its ready pipe
// (runtime/base/settings.h).
//
//   auto started = launch({"rayo-head", files.dir, files.log(), files.keeper_pid()});
//   ReadyOutcome outcome = await_ready(*started, deadline, interrupts, terminal);
//
// The daemon is detached: its own session, stdin from /dev/null, output to its log. Of the main thread.
#pragma once

#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/session.h"
#include "runtime/base/status.h"
#include "runtime/cli/exit_code.h"
#include "runtime/cli/interrupts.h"
#include "runtime/cli/terminal.h"

namespace rayo::cli {

struct DaemonPlace {
  std::string program;  // rayo-head or rayo-raylet; beside this program
  base::Path dir;       // holds settings.json
  base::Path log;
  base::Path keeper_pid;
};

struct StartedDaemon {
  DaemonPlace place;
  pid_t keeper = 0;
  base::Fd ready;
};

base::StatusOr<StartedDaemon> launch(const DaemonPlace& place);

// An error of a start, with the exit code that the command ends with.
struct StartError {
  base::Status status;
  ExitCode code = kFailed;
};
struct ReadyOutcome {
  base::Readiness ready;  // where `error.status` is ok
  StartError error;
};
// What the daemon said; else why it said nothing: it ended (the last line of its log), Ctrl-C, or the
// deadline. Where it takes seconds, `terminal` is told so.
ReadyOutcome await_ready(StartedDaemon& daemon, base::TimePoint deadline, Interrupts& interrupts, Terminal& terminal);

// The directory of this program, where the daemons lie too.
base::Path program_dir();
// The last line of a log that says something; "" where there is none.
std::string last_line(const base::Path& log);

}  // namespace rayo::cli
