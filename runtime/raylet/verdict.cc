#include "runtime/raylet/verdict.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using base::cat;

std::string how(const ProcessEnd& end) {
  if (end.exited) return cat("exit code ", end.exit_code);
  const char* name = strsignal(end.signal);
  return cat("signal ", end.signal, " (", name ? name : "unknown", ")", end.core_dumped ? ", core dumped" : "");
}

proto::DeathKind kind_of(const ProcessEnd& end, const EndContext& context) {
  // A kill by the kernel for want of memory looks like a SIGKILL of ours: only the cgroup's counter tells
  // them apart.
  bool killed_for_memory = !end.exited && end.signal == SIGKILL && context.oom_kills > 0;
  if (context.asked != proto::DEATH_UNSPECIFIED) return context.asked;
  if (killed_for_memory) return proto::OUT_OF_MEMORY;
  if (!context.reached_init) return proto::START_FAILED;
  return end.exited ? proto::EXIT : proto::SIGNAL;
}

std::string sentence(proto::DeathKind kind, const ProcessEnd& end, const EndContext& context) {
  const std::string& what = context.what;
  const std::string because = context.asked_text.empty() ? "" : cat(": ", context.asked_text);
  switch (kind) {
    case proto::OUT_OF_MEMORY:
      return cat(what, " was killed by the kernel: the memory of its cgroup was used up");
    case proto::START_FAILED:
      return cat(what, " never reached rayo::init: ", how(end), because);
    case proto::KILLED:
      return cat(what, " was killed on request", because);
    case proto::DRIVER_GONE:
      return cat(what, " ended with its driver", because);
    case proto::OUT_OF_SCOPE:
      return cat(what, " ended: no handle is left", because);
    case proto::STOPPED:
      return cat(what, " was stopped", because);
    case proto::FENCED:
      return cat(what, " was fenced", because);
    default:
      return cat(what, " ended: ", how(end),
                 context.overflowed && end.signal == SIGSEGV
                     ? ": the stack of a concurrent call overflowed (give the actor a larger stack_size)"
                     : "");
  }
}

}  // namespace

proto::DeathRecord explain(const ProcessEnd& end, const EndContext& context) {
  proto::DeathRecord record;
  record.set_at_unix_us(std::chrono::duration_cast<std::chrono::microseconds>(context.at.time_since_epoch()).count());
  rpc::to_proto(context.node, record.mutable_node());
  record.set_pid(end.pid);
  record.set_kind(kind_of(end, context));
  record.set_exit_code(end.exited ? end.exit_code : 0);
  record.set_signal(end.exited ? 0 : end.signal);
  record.set_core_dumped(end.core_dumped);
  record.set_rss_peak_bytes(end.rss_peak_bytes);
  record.set_incarnation(context.incarnation);
  record.set_text(sentence(record.kind(), end, context));
  for (const auto& line : context.last_lines) record.add_last_log_lines(line);
  return record;
}

std::vector<std::string> last_lines(std::string_view text, size_t limit) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::vector<std::string> lines;
  while (!text.empty() && lines.size() < limit) {
    size_t start = text.rfind('\n');
    lines.emplace_back(text.substr(start == std::string_view::npos ? 0 : start + 1));
    text = start == std::string_view::npos ? std::string_view() : text.substr(0, start);
  }
  std::ranges::reverse(lines);  // a user may ask for a hundred thousand
  return lines;
}

}  // namespace rayo::raylet
