// What this node's workers print: a file for each stream, node_dir/workers/PROCESS.out and .err, opened here and handed
// to the process. A thread of its own waits on inotify, reads what is new, keeps the files within their budget
// (log_budget.h) and gives whole lines to the loop.
//
//   auto files = logs.open(process);   // descriptors for dup2
//   logs.tail(process, 20);            // for a death record: the last lines, stderr's first
//   logs.ended(process);               // nothing more comes: its files are the first to go
//
// Loop thread only; the lines handler runs outside of any fiber and must not wait.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/fd.h"
#include "runtime/base/loop/loop.h"
#include "runtime/base/session.h"
#include "runtime/base/status.h"
#include "runtime/raylet/log_budget.h"

namespace rayo::raylet {

struct PrintedLines {
  ProcessId process;
  bool error = false;  // stderr
  std::vector<std::string> lines;
};

class LogFiles {
 public:
  using Handler = std::function<void(PrintedLines)>;

  LogFiles(base::Loop& loop, base::Path folder, Handler handler, LogLimits limits = {});
  ~LogFiles();  // joins the thread
  LogFiles(const LogFiles&) = delete;
  LogFiles& operator=(const LogFiles&) = delete;

  base::Status start();

  struct Pair {
    base::Fd out;
    base::Fd error;
  };
  base::StatusOr<Pair> open(ProcessId process);
  base::Path path(ProcessId process, bool error) const;
  // It has ended: files that hold nothing are removed, the others are the first to go.
  void ended(ProcessId process);
  // In a fiber: what was printed until now has been given to the handler, when this returns.
  void catch_up(base::TimePoint deadline);
  // The last lines that it printed: of stderr, or of stdout where that is empty.
  std::vector<std::string> tail(ProcessId process, size_t lines = 20) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The last `bytes` of a file; "" where it cannot be read.
std::string read_tail(const base::Path& file, size_t bytes);

}  // namespace rayo::raylet
