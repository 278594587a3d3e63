#include <algorithm>
#include <cstdlib>

#include "runtime/base/session.h"
#include "runtime/base/text.h"
#include "runtime/base/units.h"
#include "runtime/cli/command.h"
#include "runtime/cli/interrupts.h"
#include "runtime/cli/stop_session.h"

namespace rayo::cli {
namespace {

using base::cat;

// What find_session does not find, and with `all` the rest too: a start that was cut off, processes whose files were
// removed under them, and files of which nothing lives. What a program has started for itself, and what is being started,
// is left alone without `all`.
int stop_remains(bool all, base::Duration grace, const base::Status& none, Terminal& terminal) {
  int worst = kDone, ended = 0;
  for (const base::Session& session : base::sessions_of_home()) {
    const bool runs = runs_here(session);
    if (runs && !all && (session.owner_pid > 0 || base::live_pid(session.starter_pid()))) continue;
    ++ended;
    if (runs) {
      worst = std::max(worst, stop_session(session, grace, terminal));
      continue;
    }
    base::remove_session(session);
    terminal.out() << "Cluster '" << session.cluster_name << "' had ended already; its files are removed.\n";
  }
  return ended > 0 ? worst : terminal.fail(none, exit_code_of_search(none));
}

}  // namespace

int stop_command(const Arguments& arguments, Terminal& terminal) {
  std::string address, grace_text = "10s";
  bool all = false;
  Flags flags("stop", "End this machine's part of a cluster; on the head's machine the whole cluster.");
  flags.text("--address", address, "HOST:PORT", "which cluster, where several run here");
  flags.on("--all", all, "every cluster of this home on this machine");
  flags.text("--grace", grace_text, "SPAN", "what processes get to end by themselves (10s)");
  if (auto done = flags.read(arguments, terminal)) return *done;
  auto grace = base::parse_duration(grace_text);
  if (!grace.ok()) return terminal.fail(base::within(grace.status(), "cannot use --grace"), kWrongUse);
  if (all && !address.empty())
    return terminal.fail("cannot stop: --all and --address exclude each other", "give one of them", kWrongUse);
  Interrupts interrupts;  // a half-ended cluster is worse than a second of waiting
  if (all) {
    return stop_remains(
        true, *grace,
        base::failed(absl::StatusCode::kNotFound, "nothing to stop: no cluster of this home runs on this machine",
                     "rayo start --head"),
        terminal);
  }
  const char* environment = std::getenv("RAYO_ADDRESS");
  auto session = base::find_session(address.empty() && environment ? environment : address);
  if (session.ok()) return stop_session(*session, *grace, terminal);
  bool none = session.status().code() == absl::StatusCode::kNotFound;
  if (none && address.empty()) return stop_remains(false, *grace, session.status(), terminal);
  return terminal.fail(session.status(), exit_code_of_search(session.status()));
}

}  // namespace rayo::cli
