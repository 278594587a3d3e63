// The parts list of a driver and of a worker.
#include "runtime/worker/process.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "runtime/base/ids.h"
#include "runtime/base/pid_file.h"
#include "runtime/base/text.h"
#include "runtime/rpc/tls_pump.h"
#include "runtime/worker/cluster_backend.h"
#include "runtime/worker/failure.h"
#include "runtime/worker/hello.h"
#include "runtime/worker/interrupts.h"
#include "runtime/worker/log_printer.h"
#include "runtime/worker/traffic.h"
#include "runtime/worker/wait_chain.h"
#include "runtime/worker/zygote.h"

namespace rayo::worker {

namespace {

// The raylet ends a driver's actors within this.
constexpr base::Duration kGoodbye = std::chrono::seconds(1);
// Looking a name up, connecting and shaking hands.
constexpr base::Duration kDialTimeout = std::chrono::seconds(10);

base::StatusOr<Traffic::Identity> identity_of(const proto::HelloReply& reply, const ProcessId& process) {
  RAYO_ASSIGN_OR_RETURN(const rpc::Secret secret, rpc::secret_from_bytes(reply.data_secret()));
  return Traffic::Identity{
      .node = id_of<NodeId>(reply.node()),
      .process = process,
      .machine = reply.machine(),
      .keys = rpc::LinkKeys::of_data(secret),
      .idle_link = reply.idle_link_ms() > 0 ? std::chrono::milliseconds(reply.idle_link_ms()) : kIdleLink};
}

ContextRecord context_of(const proto::HelloReply& reply, const ProcessId& process) {
  ContextRecord context;
  context.cluster = id_of<ClusterId>(reply.cluster());
  context.node = id_of<NodeId>(reply.node());
  context.process = process;
  context.job = id_of<JobId>(reply.job());
  context.name_space = reply.namespace_();
  context.address = reply.address();
  return context;
}

// What driver and worker have in common, in the order in which it is made.
struct Parts {
  Parts(Traffic::Identity identity, rpc::Doorbell doorbell, ProcessEvents events, ClusterBackend::Self self)
      : traffic(identity, std::move(doorbell), base::system_clock(), std::move(events)),
        chain(base::short_id(identity.process), traffic.host(), traffic.table(), traffic),
        backend(traffic, chain, std::move(self)) {
    traffic.events().on_probe = [this](PeerId peer, uint64_t call_id, ByteView body) {
      chain.on_probe(peer, call_id, body);
    };
  }
  base::Status start(RayletSocket raylet, Welcome welcome) {
    {
      std::lock_guard hold(traffic.engine().baton());
      if (welcome.reply.arena_bytes() > 0 && !welcome.fds.empty()) {
        RAYO_ASSIGN_OR_RETURN(auto arena,
                              object_store::ArenaView::open(std::move(welcome.fds[0]), welcome.reply.arena_bytes()));
        traffic.arena().open(std::move(arena));
      }
      auto tls = raylet.take_tls();
      RAYO_RETURN_IF_ERROR(traffic.engine().attach_raylet(raylet.take_socket(), std::move(tls)));
    }
    traffic.engine().start_service();
    return absl::OkStatus();
  }

  Traffic traffic;
  WaitChain chain;
  ClusterBackend backend;
};

class Driver final : public Process {
 public:
  Driver(Traffic::Identity identity, rpc::Doorbell doorbell, ClusterBackend::Self self, bool prints_logs)
      : parts_(identity, std::move(doorbell), events(prints_logs), std::move(self)),
        interrupts_(parts_.traffic.engine()) {
    parts_.backend.set_interrupts(&interrupts_);
  }
  ~Driver() override { shutdown(); }

  base::Status start(RayletSocket raylet, Welcome welcome) {
    return parts_.start(std::move(raylet), std::move(welcome));
  }
  internal::Backend& backend() override { return parts_.backend; }

  void shutdown() override {
    if (!say_goodbye()) return;
    parts_.traffic.close();
    interrupts_.end();
    printer_.end();
  }

 private:
  // False: it was said before.
  bool say_goodbye() {
    std::lock_guard hold(parts_.traffic.engine().baton());
    if (std::exchange(ended_, true)) return false;
    proto::ToRaylet message;
    message.mutable_goodbye();
    parts_.traffic.finish_turn();
    (void)parts_.traffic.raylet().ask(message, kGoodbye);
    parts_.backend.close();
    return true;
  }
  ProcessEvents events(bool prints_logs) {
    ProcessEvents events{.on_notice = [this](const proto::Notice& notice) { printer_.print(notice); }};
    if (prints_logs) events.on_log_lines = [this](const proto::LogLines& lines) { printer_.print(lines); };
    return events;
  }

  LogPrinter printer_;
  Parts parts_;
  Interrupts interrupts_;
  bool ended_ = false;
};

[[noreturn]] void give_up(const base::Status& status) {
  std::fprintf(stderr, "rayo: worker %d: %s\n", ::getpid(), std::string(base::message(status)).c_str());
  std::fflush(nullptr);
  ::_exit(1);
}

template <class T>
T or_give_up(base::StatusOr<T> value) {
  if (!value.ok()) give_up(value.status());
  return std::move(*value);
}

// A worker's life: what it is told to host runs on this thread.
class Worker {
 public:
  Worker(const proto::HelloReply& reply, const ProcessId& process, rpc::Doorbell doorbell)
      : parts_(or_give_up(identity_of(reply, process)), std::move(doorbell),
               {.on_exit = [this](const std::string&) { on_exit(); }}, {.context = context_of(reply, process)}) {}

  [[noreturn]] void serve(RayletSocket raylet, Welcome welcome, Publish publish, const LanguageHooks& hooks) {
    parts_.traffic.host().tell_cancels(hooks.cancelled);
    if (base::Status status = parts_.start(std::move(raylet), std::move(welcome)); !status.ok()) give_up(status);
    publish(parts_.backend);
    Traffic& traffic = parts_.traffic;
    traffic.engine().baton().lock();
    while (!exit_) {
      traffic.finish_turn();
      traffic.engine().wait_until([this] { return exit_ || parts_.traffic.host().has_work(); },
                                  traffic.host().next_deadline());
      while (!exit_ && traffic.host().has_work()) run_some();
    }
    traffic.streams().leave_open();
    traffic.finish_turn();  // answers of calls that have ended
    traffic.host().destroy_actor();
    traffic.finish_turn();  // what the actor's end has called
    std::fflush(nullptr);
    ::_exit(0);
  }

 private:
  // Calls that stand ready run one after another; every now and then what they sent leaves and what came is looked at.
  void run_some() {
    for (int i = 0; i < kRunsBetweenPolls && !exit_ && parts_.traffic.host().run_one(); ++i) {
    }
    if (!parts_.traffic.host().has_work()) return;  // the outer loop lets everything out before it waits
    parts_.traffic.finish_call();
    parts_.traffic.engine().poll();
  }

  // User code that runs is not waited for: the raylet has its reasons, and its patience ends with SIGKILL.
  void on_exit() {
    if (parts_.traffic.host().busy()) ::_exit(0);
    exit_ = true;
    parts_.traffic.engine().wake();
  }

  static constexpr int kRunsBetweenPolls = 32;

  Parts parts_;
  bool exit_ = false;
};

[[noreturn]] void serve_on(RayletSocket raylet, const ProcessId& process, const std::vector<std::string>& arguments,
                           Publish publish, const LanguageHooks& hooks) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  rpc::Doorbell doorbell = or_give_up(rpc::Doorbell::create());
  Welcome welcome = or_give_up(say_hello(raylet, make_hello(proto::WORKER, process, arguments), &doorbell));
  auto* worker = new Worker(welcome.reply, process, std::move(doorbell));  // as long as the process
  worker->serve(std::move(raylet), std::move(welcome), publish, hooks);
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

namespace {

bool serving = false;  // since before any user code of a worker runs

// A program that user code starts is no worker, whatever this process is.
void forget_environment() {
  serving = true;
  ::unsetenv(worker_environment::kProcess);
  ::unsetenv(worker_environment::kZygote);
}

}  // namespace

bool started_as_worker() { return serving || *variable(worker_environment::kProcess) != '\0'; }

namespace {

struct Attachment {
  RayletSocket raylet;
  Welcome welcome;
};

base::StatusOr<Attachment> attach_at(const std::string& host_port, const std::string& token, const proto::Hello& hello,
                                     base::TimePoint deadline) {
  RAYO_ASSIGN_OR_RETURN(RayletSocket raylet, RayletSocket::dial(host_port, token, deadline));
  RAYO_ASSIGN_OR_RETURN(Welcome welcome, say_hello(raylet, hello, nullptr));
  return Attachment{std::move(raylet), std::move(welcome)};
}

// A raylet welcomes us; a head names its nodes, and the first that we reach is ours.
base::StatusOr<Attachment> attach_from_afar(const DriverTarget& target, const proto::Hello& hello) {
  const base::TimePoint deadline = base::deadline_after(base::system_clock().now(), kDialTimeout);
  RAYO_ASSIGN_OR_RETURN(Attachment first, attach_at(target.host_port, target.token, hello, deadline));
  if (first.welcome.reply.has_node()) return first;
  const std::vector<std::string> places = base::split(first.welcome.reply.address(), ',');
  base::Status last;
  for (size_t i = 0; i < places.size(); ++i) {
    const base::TimePoint now = base::system_clock().now();
    const auto left = static_cast<int64_t>(places.size() - i);
    auto attached = attach_at(places[i], target.token, hello, now + (deadline - now) / left);
    if (attached.ok()) return attached;
    last = attached.status();
    if (last.code() != absl::StatusCode::kUnavailable && last.code() != absl::StatusCode::kDeadlineExceeded)
      return last;
  }
  return base::within(last, base::cat("the head at ", target.host_port, " answers, but none of its nodes does"));
}

base::StatusOr<Attachment> attach_here(const DriverTarget& target, const proto::Hello& hello,
                                       const rpc::Doorbell& doorbell) {
  RAYO_ASSIGN_OR_RETURN(RayletSocket raylet, RayletSocket::open(target.raylet_socket));
  RAYO_ASSIGN_OR_RETURN(Welcome welcome, say_hello(raylet, hello, &doorbell));
  return Attachment{std::move(raylet), std::move(welcome)};
}

}  // namespace

base::StatusOr<std::unique_ptr<Process>> Process::connect(const DriverTarget& target) {
  const auto process = base::random_id<ProcessId>();
  const bool remote = target.raylet_socket.empty();
  RAYO_ASSIGN_OR_RETURN(rpc::Doorbell doorbell, rpc::Doorbell::create());
  proto::Hello hello = make_hello(proto::DRIVER, process, target.arguments);
  hello.set_namespace_(target.name_space);
  hello.set_remote(remote);
  auto attached = remote ? attach_from_afar(target, hello) : attach_here(target, hello, doorbell);
  if (!attached.ok()) return attached.status();
  auto& [raylet, welcome] = *attached;
  RAYO_ASSIGN_OR_RETURN(const PackageId package, offer_program(raylet));
  RAYO_ASSIGN_OR_RETURN(Traffic::Identity identity, identity_of(welcome.reply, process));
  ClusterBackend::Self self{.context = context_of(welcome.reply, process), .package = package};
  self.context.remote = identity.remote = remote;
  if (remote) identity.machine = base::boot_id();
  auto driver = std::make_unique<Driver>(identity, std::move(doorbell), std::move(self), target.log_to_driver);
  RAYO_RETURN_IF_ERROR(driver->start(std::move(raylet), std::move(welcome)));
  return driver;
}

void serve(const std::vector<std::string>& arguments, Publish publish, const LanguageHooks& hooks) {
  auto process = ProcessId::from_hex(variable(worker_environment::kProcess));
  if (!process)
    give_up(base::failed(absl::StatusCode::kInvalidArgument,
                         base::cat(worker_environment::kProcess, " is not a process id")));
  RayletSocket raylet = or_give_up(RayletSocket::open(variable(worker_environment::kSocket)));
  const bool zygote = std::string_view(variable(worker_environment::kZygote)) == "1" && count_threads() == 1;
  forget_environment();
  if (!zygote) serve_on(std::move(raylet), *process, arguments, publish, hooks);
  or_give_up(say_hello(raylet, make_hello(proto::ZYGOTE, *process, arguments), nullptr));
  Forked child = run_zygote(std::move(raylet), hooks.fork);
  serve_on(std::move(child.raylet), child.process, arguments, publish, hooks);
}

}  // namespace rayo::worker
