// The head as a process: puts its parts together, answers on its ports, and takes them apart again. One a process; loop
// thread.
#pragma once

#include <memory>

#include "runtime/base/loop/loop.h"
#include "runtime/base/settings.h"

namespace rayo::head {

class HeadProcess {
 public:
  HeadProcess(base::Loop& loop, base::HeadSettings settings);
  ~HeadProcess();

  // In a fiber: everything up to the answer on the published address. What it tells goes to --ready-fd.
  base::Readiness start();
  // In a fiber: returns when stopped (signal, StopCluster, owner gone) and everything is closed.
  void serve();
  // Any time, loop thread.
  void ask_stop();

 private:
  struct Parts;
  base::Loop& loop_;
  base::HeadSettings settings_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rayo::head
