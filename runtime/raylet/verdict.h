// Why a process ended, as a DeathRecord: from its exit status, from what this raylet itself had done to it,
// and from what the cgroup counted meanwhile. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/clock.h"
#include "runtime/proto/common.pb.h"

namespace rayo::raylet {

// How the process itself ended, as the kernel told its parent.
struct ProcessEnd {
  int64_t pid = 0;
  bool exited = false;  // else by a signal
  int exit_code = 0;
  int signal = 0;
  bool core_dumped = false;
  int64_t rss_peak_bytes = 0;
};

// What the raylet did or knew before; it explains an end that the status alone would not.
struct EndContext {
  NodeId node;
  std::string what = "worker";                        // "actor Counter", "task half", "driver"
  proto::DeathKind asked = proto::DEATH_UNSPECIFIED;  // KILLED, STOPPED, DRIVER_GONE, OUT_OF_SCOPE ...: we ended it
  std::string asked_text;                             // the reason in words; may be empty
  bool reached_init = true;                           // said hello
  uint32_t incarnation = 0;                           // of the actor that it hosted
  bool overflowed = false;                            // a call's stack, as the process itself said at its end
  int64_t oom_kills = 0;                              // of the cgroup since the process began
  std::vector<std::string> last_lines;
  base::WallTime at{};
};

proto::DeathRecord explain(const ProcessEnd& end, const EndContext& context);

// At most 20 lines, the last ones.
std::vector<std::string> last_lines(std::string_view text, size_t limit = 20);

}  // namespace rayo::raylet
