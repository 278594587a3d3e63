// What workers print, on its way to their driver: rate-limited, to a driver here by a frame, to one on
// another node by way of the head. Loop thread only; none of it waits.
#pragma once

#include <optional>

#include "runtime/base/loop/event.h"
#include "runtime/raylet/head_link.h"
#include "runtime/raylet/jobs.h"
#include "runtime/raylet/lease_service.h"
#include "runtime/raylet/log_files.h"
#include "runtime/raylet/log_relay.h"
#include "runtime/raylet/processes.h"

namespace rayo::raylet {

class Output {
 public:
  Output(base::Loop& loop, const OwnNode& own, Processes& processes, Jobs& jobs, HeadLink& head);
  ~Output();

  // The handler of LogFiles.
  void printed(PrintedLines printed);
  // From another node, for a driver here.
  void from_head(const proto::LogLinesFor& lines);
  void notice(const proto::NoticeFor& notice);
  void process_gone(ProcessId process);

 private:
  // What a process was called when it lived: its last lines arrive after its end.
  struct Source {
    JobId job;
    std::string what;
    pid_t pid = 0;
  };
  std::optional<Source> source_of(ProcessId process);
  void show(ProcessId process, bool error, std::vector<std::string> lines, int64_t dropped);
  void tell_later();
  void to_driver(JobId job, proto::LogLines lines);

  base::Loop& loop_;
  const OwnNode& own_;
  Processes& processes_;
  Jobs& jobs_;
  HeadLink& head_;
  LogRelay relay_{LogRate{}};
  std::map<ProcessId, Source> gone_;
  base::Timer telling_;
  base::Queue<proto::RelayRequest> to_head_;
  base::TaskGroup tasks_;
};

}  // namespace rayo::raylet
