#include "runtime/cli/failure_report.h"

#include "runtime/base/clock.h"
#include "runtime/base/text.h"
#include "runtime/cli/status_text.h"
#include "runtime/rpc/status_json.h"

namespace rayo::cli {
namespace {

ExitCode code_for(proto::FailureKind kind) {
  switch (kind) {
    case proto::INVALID:
      return kWrongUse;
    case proto::UNAVAILABLE:
      return kNoCluster;
    case proto::TIMEOUT:
      return kTimedOut;
    default:
      return kFailed;
  }
}

}  // namespace

int fail(const proto::Failure& failure, Terminal& terminal) {
  return terminal.fail(failure.text(), failure.next_step().empty() ? "rayo status" : failure.next_step(),
                       code_for(failure.kind()));
}

std::string death_text(const proto::DeathRecord& death) {
  std::string text = base::cat("  died at ", clock_text(death.at_unix_us(), base::system_clock().wall()), " on node ",
                               short_id(death.node()));
  if (death.pid() > 0) text += base::cat(", pid ", death.pid());
  text += base::cat(": ", death.text().empty() ? rpc::death_kind_text(death.kind()) : printable(death.text()), "\n");
  for (const std::string& line : death.last_log_lines()) text += base::cat("    | ", printable(line), "\n");
  return text;
}

}  // namespace rayo::cli
