#include <cstdlib>
#include <filesystem>
#include <sys/utsname.h>

#include "gpu/device.h"
#include "runtime/base/config.h"
#include "runtime/base/session.h"
#include "runtime/base/text.h"
#include "runtime/cli/command.h"
#include "runtime/cli/interrupts.h"
#include "runtime/cli/launch.h"
#include "runtime/cli/processes.h"
#include "runtime/cli/reach.h"
#include "runtime/cli/start_options.h"
#include "runtime/cli/start_place.h"
#include "runtime/cli/start_report.h"
#include "runtime/cli/stop_session.h"
#include "runtime/cli/token_source.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;
using base::cat;

// A daemon is ready in tenths of a second; a slow disk or DNS takes seconds.
constexpr base::Duration kDaemonPatience = 30s;
constexpr base::Duration kUndoGrace = 1s;  // of what a failed start has begun: it holds nothing of the user's

StartError fine() { return {}; }
StartError wrong_use(const base::Status& status) { return {status, kWrongUse}; }
StartError failed(const base::Status& status) { return {status, kFailed}; }

StartError check_machine() {
  utsname name{};
  if (uname(&name) == 0 && std::string_view(name.sysname) == "Linux" && std::string_view(name.machine) == "x86_64")
    return fine();
  return failed(
      base::failed(absl::StatusCode::kUnimplemented,
                   cat("cannot start here: Rayo runs on Linux x86-64, this is ", name.sysname, " ", name.machine),
                   "start it on a Linux x86-64 machine"));
}

StartError check_gpus(int wanted) {
  if (wanted <= 0) return fine();
  gpu::DeviceList list = gpu::list_devices(base::deadline_after(base::system_clock().now(), 10s));
  auto found = static_cast<int>(list.devices.size());
  if (wanted <= found) return fine();
  std::string cause = list.reason.empty() ? std::string() : cat(" (", list.reason, ")");
  return wrong_use(base::failed(
      absl::StatusCode::kInvalidArgument, cat("cannot use --num-gpus ", wanted, ": NVML lists ", found, cause),
      found > 0 ? cat("--num-gpus ", found, ", or leave it out") : std::string("leave --num-gpus out")));
}

// One run of `rayo start`: what it has begun, so that a failure can take it back.
class Start {
 public:
  Start(const StartOptions& options, Terminal& terminal) : options_(options), terminal_(terminal) {}

  int run() {
    StartError error = check();
    if (error.status.ok()) error = open_session();
    if (error.status.ok() && options_.head) error = start_head();
    if (error.status.ok()) error = start_node();
    if (error.status.ok()) error = settle();
    if (error.status.ok() && !options_.head && !place_.local) error = meet_others();
    if (!error.status.ok()) {
      undo();
      return terminal_.fail(error.status, error.code);
    }
    report();
    return options_.block ? stay() : kDone;
  }

 private:
  StartError check();
  StartError open_session();
  StartError join_session();
  StartError start_head();
  StartError start_node();
  StartError settle();
  StartError meet_others();
  StartError run_daemon(const DaemonPlace& place, base::Readiness& ready);
  base::Binding binding(const PortWish& port) const;
  void undo();
  void report();
  int stay();

  const StartOptions& options_;
  Terminal& terminal_;
  Interrupts interrupts_;
  base::TimePoint begun_ = base::system_clock().now();
  StartPlace place_;
  base::Path config_file_;  // "" : every setting has its default
  base::Session session_;
  bool session_is_new_ = false;
  base::NodeFiles node_;
  std::vector<DaemonProcesses> started_;
  base::Readiness head_;
  base::Readiness raylet_;
};

StartError Start::check() {
  if (StartError error = check_machine(); !error.status.ok()) return error;
  if (options_.head) {
    config_file_ = options_.config_file.empty() ? base::config_file() : base::Path(options_.config_file);
    if (auto config = base::Config::read(config_file_); !config.ok()) return wrong_use(config.status());
  }
  auto place = choose_place(options_);
  if (!place.ok()) return wrong_use(place.status());
  place_ = std::move(*place);
  return check_gpus(options_.num_gpus);
}

StartError Start::open_session() {
  if (!options_.head) return join_session();
  for (const base::Session& old : base::sessions_of_home()) {  // what a reboot, or the end of its program, has left
    if (!old.live() && (old.rebooted() || old.owner_pid > 0)) base::remove_session(old);
  }
  auto session = base::create_session(options_.name, options_.owner_pid);
  if (!session.ok()) {
    bool asked_for = session.status().code() == absl::StatusCode::kAlreadyExists ||
                     session.status().code() == absl::StatusCode::kInvalidArgument;
    return {session.status(), asked_for ? kWrongUse : kFailed};
  }
  session_ = std::move(*session);
  session_is_new_ = true;
  return fine();
}

// A further node of a session of this home, or the first of this machine.
StartError Start::join_session() {
  std::string address = options_.address_text();
  if (auto known = base::find_session(address); known.ok()) {
    session_ = std::move(*known);
    return fine();
  }
  TokenSearch search = find_token(options_.token_file, cat("Token of the cluster at ", address), terminal_);
  if (!search.status.ok()) return {search.status, kRefused};
  auto session = base::create_session({});
  if (!session.ok()) return failed(session.status());
  session_ = std::move(*session);
  session_is_new_ = true;
  session_.address = address;
  return failed(base::write_private_file(session_.token_file(), search.token + "\n"));
}

base::Binding Start::binding(const PortWish& port) const {
  return {.host = place_.host,
          .port = port.number,
          .port_fixed = port.fixed,
          .advertise = options_.advertise,
          .data_host = place_.data_host};
}

StartError Start::run_daemon(const DaemonPlace& place, base::Readiness& ready) {
  auto daemon = launch(place);
  if (!daemon.ok()) return failed(daemon.status());
  started_.push_back({place.program, daemon->keeper, 0});
  ReadyOutcome outcome =
      await_ready(*daemon, base::deadline_after(base::system_clock().now(), kDaemonPatience), interrupts_, terminal_);
  ready = std::move(outcome.ready);
  for (const std::string& note : ready.notes) terminal_.note(note);
  return outcome.error;
}

StartError Start::start_head() {
  base::HeadFiles files = session_.head();
  if (auto made = base::make_private_dir(files.dir); !made.ok()) return failed(made);
  base::HeadSettings settings{.session_dir = session_.dir,
                              .state_dir = session_.state,
                              .token_file = session_.token_file(),
                              .name = session_.name,
                              .bind = binding(options_.port),
                              .http_port = options_.http_port.number,
                              .http_port_fixed = options_.http_port.fixed,
                              .local = place_.local,
                              .owner_pid = options_.owner_pid};
  if (!config_file_.empty()) settings.config_file = std::filesystem::absolute(config_file_);
  if (auto written = base::write_settings(files.settings(), settings); !written.ok()) return failed(written);
  if (StartError error = run_daemon({"rayo-head", files.dir, files.log(), files.keeper_pid()}, head_);
      !error.status.ok())
    return error;
  session_.has_head = true;
  session_.address = head_.address;
  session_.listen = head_.listen;
  session_.http = head_.http;
  session_.cluster = head_.cluster;
  if (!head_.cluster_name.empty()) session_.cluster_name = head_.cluster_name;
  return failed(base::save_session(session_));
}

StartError Start::start_node() {
  auto node = base::add_node(session_);
  if (!node.ok()) return failed(node.status());
  node_ = *node;
  base::RayletSettings settings{.session_dir = session_.dir,
                                .node_dir = node_.dir,
                                .token_file = session_.token_file(),
                                .head_addresses = base::split(session_.reach(), ','),
                                .bind = binding(options_.node_port),
                                .local = place_.local,
                                .with_head = options_.head,
                                .num_cpus = options_.num_cpus,
                                .num_gpus = options_.num_gpus,
                                .memory_bytes = options_.memory_bytes,
                                .object_store_bytes = options_.object_store_bytes,
                                .resources = options_.resources,
                                .labels = options_.labels,
                                .python = options_.python,
                                .owner_pid = options_.owner_pid};
  if (options_.head) {  // the port of --advertise is the head's
    auto advertised = base::parse_host(options_.advertise, 0);
    if (advertised.ok()) settings.bind.advertise = advertised->host;
  }
  if (auto written = base::write_settings(node_.settings(), settings); !written.ok()) return failed(written);
  return run_daemon({"rayo-raylet", node_.dir, node_.log(), node_.keeper_pid()}, raylet_);
}

StartError Start::settle() {
  if (session_.cluster.empty()) session_.cluster = raylet_.cluster;
  if (!options_.head && session_is_new_ && !raylet_.cluster_name.empty()) session_.cluster_name = raylet_.cluster_name;
  if (auto saved = base::save_session(session_); !saved.ok()) return failed(saved);
  std::error_code ignored;
  if (session_is_new_) std::filesystem::remove(session_.starter_pid(), ignored);
  return fine();
}

// A node that is up but cannot be reached would look well until the first call to it.
StartError Start::meet_others() {
  Cluster cluster(session_, session_.reach());
  base::Status met = check_reach(cluster, node_, raylet_, terminal_);
  return {met, met.ok() ? kDone : exit_code_of_call(met)};
}

void Start::undo() {
  for (DaemonProcesses& one : started_) {
    const base::Path pid_file = one.what == "rayo-head" ? session_.head().head_pid() : node_.raylet_pid();
    one.daemon = base::live_pid(pid_file).value_or(0);
  }
  end_daemons({started_.rbegin(), started_.rend()}, kUndoGrace);
  std::error_code ignored;
  if (session_is_new_) {
    std::filesystem::remove(session_.starter_pid(), ignored);
    base::remove_session(session_);
  } else if (!node_.dir.empty()) {
    std::filesystem::remove_all(node_.dir, ignored);
  }
}

void Start::report() {
  int others = 0;
  for (const base::Session& other : base::sessions_of_home())
    others += other.name != session_.name && other.owner_pid == 0 && other.live();
  StartReport report{
      .options = options_, .place = place_, .session = session_, .node = node_, .head = head_, .raylet = raylet_};
  report.seconds = base::seconds(base::system_clock().now() - begun_);
  report.alone = others == 0;
  terminal_.out() << (options_.json ? start_json(report) : start_text(report)) << std::flush;
}

// --block: until Ctrl-C, or until a daemon that was started here has ended.
int Start::stay() {
  terminal_.note("in the foreground: Ctrl-C stops");
  while (!interrupts_.wait(500ms)) {
    bool head_gone = options_.head && !base::live_pid(session_.head().head_pid());
    if (!head_gone && node_.live()) continue;
    std::string_view what = head_gone ? "head" : "raylet";
    std::string cause = last_line(head_gone ? session_.head().log() : node_.log());
    undo();
    return terminal_.fail(cat("the ", what, " has ended", cause.empty() ? "" : ": ", cause), "rayo start again",
                          kFailed);
  }
  return options_.head ? stop_session(session_, kStopGrace, terminal_)
                       : stop_node(session_, node_, kStopGrace, terminal_);
}

}  // namespace

int start_command(const Arguments& arguments, Terminal& terminal) {
  StartRequest request = read_start(arguments, terminal);
  if (request.done) return *request.done;
  return Start(request.options, terminal).run();
}

}  // namespace rayo::cli
