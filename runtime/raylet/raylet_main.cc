// rayo-raylet --settings FILE --ready-fd N: the daemon of one node. `rayo start` runs it under a keeper; what
// it needs to know stands in settings.json, what became of it goes as one line to the descriptor of
// --ready-fd (runtime/base/settings.h).
#include <cstdio>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/base/address.h"
#include "runtime/base/ids.h"
#include "runtime/base/log.h"
#include "runtime/base/loop/blocking.h"
#include "runtime/base/loop/signals.h"
#include "runtime/base/open_files.h"
#include "runtime/base/session.h"
#include "runtime/base/text.h"
#include "runtime/raylet/node.h"

namespace {

using namespace std::chrono_literals;
using rayo::base::RayletSettings;
using rayo::base::Readiness;
using rayo::base::Status;
namespace base = rayo::base;
namespace raylet = rayo::raylet;

constexpr unsigned kEndSeconds =
    5;  // on top of what its processes may take: then the kernel ends a raylet that was told to stop

struct Outcome {
  Status status;
  int exit_code = 1;
};

// Measure, bind, join: the parts of the start that can fail for reasons outside.
Outcome prepare(base::Loop& loop, const RayletSettings& settings, raylet::NodeStart& start) {
  base::WorkThreads prober("rayo-probe", 1);
  auto offer = base::run_on_thread(prober, [&] { return raylet::measure_node(settings); });
  if (!offer.ok()) return {offer.status(), 2};
  start.offer = std::move(*offer);
  auto port = rayo::rpc::Port::open(loop, settings.bind);
  if (!port.ok()) return {port.status(), 1};
  start.port = std::move(*port);
  auto node = base::random_id<rayo::NodeId>();
  start.own = raylet::describe_node(settings, node, *start.port);
  auto joined = raylet::join_cluster(loop, settings, node);
  if (!joined.ok()) return {joined.status(), rayo::rpc::join_exit_code(joined.status())};
  start.joined = std::move(*joined);
  return {absl::OkStatus(), 0};
}

void tell_failure(int ready_fd, const Outcome& outcome) {
  base::log().error("{}", base::message(outcome.status));
  base::tell_ready(ready_fd, {.exit_code = outcome.exit_code,
                              .error = std::string(base::message(outcome.status)),
                              .next_step = base::next_step(outcome.status)});
}

int exit_code_of(const Status& refused) {
  if (refused.code() == absl::StatusCode::kUnavailable) return 3;
  return refused.code() == absl::StatusCode::kFailedPrecondition ? 4 : 1;
}

// Ends when the process that owns a --local cluster has ended.
void watch_owner(base::Loop& loop, raylet::Node& node, int owner_pid) {
  auto born = base::start_ticks(owner_pid);
  loop.spawn("owner", [&node, owner_pid, born] {
    while (base::sleep_for(200ms)) {
      if (born && base::start_ticks(owner_pid) == born) continue;
      return node.ask_to_stop("the program that owns this cluster has ended");
    }
  });
}

int serve(base::Loop& loop, const RayletSettings& settings, int ready_fd) {
  raylet::NodeStart start;
  start.open_files = base::raise_open_files();
  if (auto outcome = prepare(loop, settings, start); !outcome.status.ok()) {
    tell_failure(ready_fd, outcome);
    return outcome.exit_code;
  }
  Readiness ready{.ok = true,
                  .address = start.own.address,
                  .data_address = start.own.data_address,
                  .cluster = start.joined.cluster.hex(),
                  .cluster_name = start.joined.cluster_name,
                  .node = start.own.id.hex(),
                  .notes = start.port->notes()};
  if (!settings.bind.advertise.empty()) ready.listen = base::HostPort{settings.bind.host, start.port->port()}.text();
  raylet::Node node(loop, settings, std::move(start));
  pid_t keeper = getppid();
  base::Signals signals(loop, {SIGTERM, SIGINT, SIGHUP}, [&](int number) {
    if (getppid() != keeper) node.ask_to_stop("its keeper is gone");
    node.ask_to_stop(base::cat("signal ", number));
  });
  auto registered = node.open();
  if (!registered.ok()) {
    tell_failure(ready_fd, {registered.status(), exit_code_of(registered.status())});
    node.close();
    return 1;
  }
  if (settings.owner_pid > 0) watch_owner(loop, node, settings.owner_pid);
  base::log().info("node {} answers on {}", ready.node, ready.address);
  base::tell_ready(ready_fd, ready);
  node.stop_asked().wait();
  alarm(kEndSeconds + static_cast<unsigned>(std::chrono::ceil<std::chrono::seconds>(node.end_limit()).count()));
  node.close();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  raylet::Arguments arguments;
  if (!raylet::parse_arguments(argc, argv, arguments)) {
    std::fputs("usage: rayo-raylet --settings FILE --ready-fd N\n", stderr);
    return 2;
  }
  base::init_log("raylet");
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a worker leaves behind comes to us
  auto settings = base::read_raylet_settings(arguments.settings);
  if (!settings.ok()) {
    tell_failure(arguments.ready_fd, {settings.status(), 2});
    return 2;
  }
  base::NodeFiles files{settings->node_dir};
  if (auto written = base::write_pid_file(files.raylet_pid(), getpid()); !written.ok()) {
    tell_failure(arguments.ready_fd, {written, 1});
    return 1;
  }
  base::Loop loop;
  int exit_code = 1;
  loop.spawn("raylet", [&] {
    exit_code = serve(loop, *settings, arguments.ready_fd);
    loop.stop();
  });
  loop.run();
  ::unlink(files.raylet_pid().c_str());
  return exit_code;
}
