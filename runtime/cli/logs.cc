#include <iostream>

#include "runtime/base/loop/loop.h"
#include "runtime/base/text.h"
#include "runtime/cli/cluster.h"
#include "runtime/cli/command.h"
#include "runtime/cli/daemon_logs.h"
#include "runtime/cli/failure_report.h"
#include "runtime/cli/json_log.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;
using base::cat;

constexpr base::Duration kPatience = 5s;

struct LogFlags {
  std::string id, address;
  int64_t tail = -1;
  bool follow = false, json = false;
};

struct LogPlace {
  ProcessId process;  // nil: the raylet's own log
  LogOrigin origin;   // where it is asked for
  std::unique_ptr<rpc::Channel> owned;
  rpc::Channel* raylet = nullptr;
};

// Whose log it is, as far as the head can tell.
base::StatusOr<LogOrigin> find_origin(rpc::Channel& head, const proto::FindLogReply& place) {
  const auto process = rpc::from_proto<ProcessId>(place.process());
  LogOrigin origin{.name = process ? "" : "raylet", .daemon = !process};
  proto::ListRequest request;
  request.set_what("nodes");
  RAYO_ASSIGN_OR_RETURN(const proto::ListReply nodes, head.call_blocking(rpc::head::kList, request, kPatience));
  for (const proto::NodeInfo& node : nodes.nodes())
    if (node.address() == place.node_address()) origin.node = rpc::from_proto<NodeId>(node.node()).hex();
  if (!process) return origin;
  request.set_what("workers");
  RAYO_ASSIGN_OR_RETURN(const proto::ListReply all, head.call_blocking(rpc::head::kList, request, kPatience));
  for (const proto::WorkerInfo& worker : all.workers()) {
    if (rpc::from_proto<ProcessId>(worker.process()) != process) continue;
    origin.pid = worker.pid();
    origin.name = worker.what().empty() ? worker.kind() : worker.what();
  }
  return origin;
}

// The raylet that holds the log of `id`.
base::StatusOr<LogPlace> find_log(const LogFlags& wanted, Cluster& cluster, Terminal& terminal) {
  RAYO_ASSIGN_OR_RETURN(rpc::Channel * head, cluster.head(terminal));
  proto::FindLogRequest request;
  request.set_id(wanted.id);
  RAYO_ASSIGN_OR_RETURN(proto::FindLogReply reply, head->call_blocking(rpc::head::kFindLog, request, kPatience));
  if (reply.has_failure()) {
    return base::failed(absl::StatusCode::kNotFound, reply.failure().text(),
                        reply.failure().next_step().empty() ? "rayo list workers" : reply.failure().next_step());
  }
  LogPlace place;
  place.process = rpc::from_proto<ProcessId>(reply.process());
  if (wanted.json) {
    RAYO_ASSIGN_OR_RETURN(place.origin, find_origin(*head, reply));
  }
  std::error_code error;
  bool here = !reply.node_control().empty() && std::filesystem::exists(reply.node_control(), error);
  if (here) {
    place.owned = rpc::Channel::local(reply.node_control());
  } else {
    RAYO_ASSIGN_OR_RETURN(place.owned, cluster.raylet_at(reply.node_address(), terminal));
  }
  place.raylet = place.owned.get();
  return place;
}

// Copies the log to the terminal; in a fiber.
base::Status copy_log(const LogPlace& place, const LogFlags& wanted, Terminal& terminal) {
  proto::ReadLogRequest request;
  rpc::to_proto(place.process, request.mutable_process());
  request.set_tail_lines(wanted.tail);
  request.set_follow(wanted.follow);
  RAYO_ASSIGN_OR_RETURN(auto stream, place.raylet->open(rpc::raylet::kReadLog, request));
  JsonLog lines(terminal.out(), place.origin);
  for (;;) {
    RAYO_ASSIGN_OR_RETURN(auto chunk, stream->read());
    if (!chunk) {
      lines.finish();
      return stream->finish(base::deadline_after(base::system_clock().now(), kPatience));
    }
    if (wanted.json) {
      lines.add(chunk->data(), chunk->error());
    } else if (chunk->error()) {
      std::cerr << chunk->data() << std::flush;
    } else {
      terminal.out() << chunk->data() << std::flush;
    }
    if (!terminal.out().good()) return {};  // the reader has gone: rayo logs --follow | head
  }
}

int print_log(const LogFlags& wanted, Cluster& cluster, Terminal& terminal) {
  auto place = find_log(wanted, cluster, terminal);
  if (!place.ok()) {
    bool unknown = place.status().code() == absl::StatusCode::kNotFound;
    return terminal.fail(place.status(), unknown ? kFailed : exit_code_of_call(place.status()));
  }
  base::Status copied;
  base::run_in_loop([&] { copied = copy_log(*place, wanted, terminal); });
  if (copied.ok()) return kDone;
  if (copied.code() == absl::StatusCode::kNotFound && base::next_step(copied).empty()) {
    return terminal.fail(base::message(copied), "rayo list workers shows who runs; it may have printed nothing",
                         kFailed);
  }
  return terminal.fail(copied, exit_code_of_call(copied));
}

}  // namespace

int logs_command(const Arguments& arguments, Terminal& terminal) {
  LogFlags wanted;
  std::optional<std::string> tail;
  Flags flags("logs",
              "What a worker, an actor or a driver's workers printed; without an ID what this machine's "
              "daemons logged.");
  flags.argument("ID", wanted.id, "of a worker or actor (6 digits and more), or head, node-1 ... here", false);
  add_address_flag(flags, wanted.address);
  flags.on("--follow", wanted.follow, "go on with what comes, until Ctrl-C");
  flags.text("--tail", tail, "N", "only the last N lines");
  flags.on("--json", wanted.json, "one JSON object a line: at, node, pid, name, stream, text");
  if (auto done = flags.read(arguments, terminal)) return *done;
  if (tail) {
    auto lines = parse_line_count(*tail);
    if (!lines.ok()) return terminal.fail(lines.status(), kWrongUse);
    wanted.tail = *lines;
  }
  ClusterSearch search = find_cluster(wanted.address, terminal);
  if (!search.cluster) return terminal.fail(search.error, search.code);
  const auto& session = search.cluster->session();
  bool of_daemon = wanted.id.empty() || wanted.id == "head" || wanted.id.starts_with("node-");
  if (!of_daemon) return print_log(wanted, *search.cluster, terminal);
  if (!session) {
    return terminal.fail("cannot show the daemons' logs: no node of that cluster runs on this machine",
                         "rayo logs there, or rayo logs ID", kFailed);
  }
  return print_daemon_logs(*session, {wanted.id, wanted.tail, wanted.follow, wanted.json}, terminal);
}

}  // namespace rayo::cli
