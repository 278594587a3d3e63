#include "runtime/cli/stop_session.h"

#include <algorithm>
#include <filesystem>

#include "runtime/base/loop/loop.h"
#include "runtime/base/text.h"
#include "runtime/base/units.h"
#include "runtime/cli/processes.h"
#include "runtime/rpc/grpc/client.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;
using base::cat;

constexpr base::Duration kNodePatience = 1s;   // for a node of this machine to take the word
constexpr base::Duration kWordsPatience = 3s;  // on top of the grace: the way there and back

struct Farewell {
  base::Status status;
  std::vector<std::string> unreachable;
};

// Asks the head to tell every node; waits for its last word. In a fiber.
Farewell ask_head(rpc::Channel& head, base::Duration grace, Terminal& terminal) {
  Farewell farewell;
  proto::StopRequest request;
  request.set_grace_ms(std::chrono::duration_cast<std::chrono::milliseconds>(grace).count());
  auto deadline = base::deadline_after(base::system_clock().now(), grace + kWordsPatience);
  auto stream = head.open(rpc::head::kStopCluster, request, deadline);
  if (!stream.ok()) return {stream.status(), {}};
  for (;;) {
    auto progress = (*stream)->read(deadline);
    if (!progress.ok()) return {progress.status(), std::move(farewell.unreachable)};
    if (!*progress) return farewell;
    if (!(*progress)->text().empty()) terminal.note((*progress)->text());
    farewell.unreachable.assign((*progress)->unreachable().begin(), (*progress)->unreachable().end());
    if ((*progress)->last()) return farewell;
  }
}

Farewell tell_cluster(const base::Session& session, base::Duration grace, Terminal& terminal) {
  if (!session.has_head || !base::live_pid(session.head().head_pid())) return {};
  Farewell farewell;
  base::run_in_loop([&] {
    auto head = rpc::Channel::local(session.head().control_socket());
    farewell = ask_head(*head, grace, terminal);
  });
  if (!farewell.status.ok())
    terminal.note(
        cat("the head did not say goodbye (", base::message(farewell.status), "): its processes are ended here"));
  return farewell;
}

// A signal says nothing of a grace: what the head could not tell a node of this machine is told here.
void ask_nodes(const std::vector<base::NodeFiles>& nodes, base::Duration grace) {
  proto::StopRequest request;
  request.set_grace_ms(std::chrono::duration_cast<std::chrono::milliseconds>(grace).count());
  base::run_in_loop([&] {
    for (const base::NodeFiles& node : nodes) {
      if (!base::live_pid(node.raylet_pid())) continue;
      auto raylet = rpc::Channel::local(node.control_socket());
      // One that does not answer is ended by the signal.
      (void)raylet->call(rpc::raylet::kStopNode, request, base::current_loop()->deadline(kNodePatience));
    }
  });
}

void end_and_note(const std::vector<DaemonProcesses>& daemons, base::Duration within, Terminal& terminal) {
  const std::vector<std::string> killed = end_daemons(daemons, within);
  if (killed.empty()) return;
  terminal.note(
      cat(base::join(killed, ", "), " did not end within ", base::format_duration(within), " and was killed"));
}

// A start that is still at it takes back what it has begun.
void end_start(const base::Session& session, base::Duration grace, Terminal& terminal) {
  if (auto starter = base::live_pid(session.starter_pid()))
    end_and_note({{"rayo start", 0, *starter}}, grace, terminal);
}

std::vector<DaemonProcesses> daemons_to_end(const base::Session& session, Terminal& terminal) {
  std::vector<DaemonProcesses> daemons = lost_daemons(session), known = live_daemons(session);
  // One that has just ended its work has removed its pid file alone.
  const auto removed = [&session](const DaemonProcesses& one) {
    std::error_code error;
    return !std::filesystem::exists(session.dir / one.what / "settings.json", error);
  };
  if (std::any_of(daemons.begin(), daemons.end(), removed)) {
    const bool head = daemons.back().what == "head";
    terminal.note(cat("files below ", session.dir.string(),
                      " were removed while the cluster ran: its processes were found by their command lines",
                      head ? "; nodes on other machines were not told: rayo stop there" : ""));
  }
  daemons.insert(daemons.end(), known.begin(), known.end());
  return daemons;
}

std::string what_of(const base::Session& session) {
  if (session.address.empty()) return cat("Cluster '", session.name, "', whose start was not finished,");
  if (session.has_head) return cat("Cluster '", session.cluster_name, "'");
  return cat("This machine's part of the cluster at ", session.address);
}

}  // namespace

bool runs_here(const base::Session& session) { return session.live() || !lost_daemons(session).empty(); }

int stop_session(const base::Session& session, base::Duration grace, Terminal& terminal) {
  auto begin = base::system_clock().now();
  end_start(session, grace, terminal);
  Farewell farewell = tell_cluster(session, grace, terminal);
  ask_nodes(session.nodes, grace);
  end_and_note(daemons_to_end(session, terminal), grace + kWordsPatience, terminal);
  base::remove_session(session);
  terminal.out() << what_of(session) << " is stopped ("
                 << base::fixed(base::seconds(base::system_clock().now() - begin), 2) << " s).\n"
                 << std::flush;
  if (farewell.unreachable.empty()) return kDone;
  return terminal.fail(
      cat("the cluster is stopped here, but these nodes could not be told: ", base::join(farewell.unreachable, ", ")),
      "rayo stop on each of those machines", kFailed);
}

int stop_node(const base::Session& session, const base::NodeFiles& node, base::Duration grace, Terminal& terminal) {
  ask_nodes({node}, grace);
  end_and_note(live_daemons(node), grace + kWordsPatience, terminal);
  std::error_code ignored;
  std::filesystem::remove_all(node.dir, ignored);
  base::remove_session(session);  // nothing where another node or the head lives on
  terminal.out() << "Node " << node.number << " of the cluster at " << session.address << " is stopped.\n"
                 << std::flush;
  return kDone;
}

}  // namespace rayo::cli
