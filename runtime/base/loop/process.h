// The end of child processes, seen by a pidfd and reaped with wait4: status, core dump and peak memory are
// known.
//
//   ChildReaper reaper(loop);
//   RAYO_RETURN_IF_ERROR(reaper.on_child_exit(pid, [&](const ChildEnd& end) { workers.died(end); }));
//
// The child may be one that a zygote forked for us (CLONE_PARENT). It may be dead already. Nobody else may
// wait for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>

#include "runtime/base/loop/loop.h"
#include "runtime/base/status.h"

namespace rayo::base {

struct ChildEnd {
  pid_t pid = 0;
  bool exited = false;  // else ended by a signal
  int exit_code = 0;
  int signal = 0;
  bool core_dumped = false;
  int64_t rss_peak_bytes = 0;
  // "exit code 3", "signal 11 (Segmentation fault), core dumped"
  std::string text() const;
};

class ChildReaper {
 public:
  explicit ChildReaper(Loop& loop);
  ~ChildReaper();  // what is still watched is forgotten, not killed
  ChildReaper(const ChildReaper&) = delete;
  ChildReaper& operator=(const ChildReaper&) = delete;

  // `handler` runs in a fiber, once. NotFound: no such child of this process.
  Status on_child_exit(pid_t pid, std::function<void(const ChildEnd&)> handler);
  int watched() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rayo::base
