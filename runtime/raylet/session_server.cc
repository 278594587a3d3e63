#include "runtime/raylet/session_server.h"

#include <unistd.h>

#include "runtime/base/ids.h"
#include "runtime/base/log.h"
#include "runtime/base/open_files.h"
#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/raylet/frame_dispatch.h"
#include "runtime/raylet/head_link.h"
#include "runtime/raylet/jobs.h"
#include "runtime/raylet/lease_service.h"
#include "runtime/raylet/log_files.h"
#include "runtime/raylet/nodes.h"
#include "runtime/raylet/object_service.h"
#include "runtime/raylet/worker_starter.h"
#include "runtime/rpc/join.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kHelloLimit = 10s;      // a connection that says nothing
constexpr base::Duration kFromElsewhere = 20ms;  // what was printed on other nodes takes a few on its way by the head
constexpr base::Duration kCatchUpLimit = 200ms;
constexpr base::Duration kGoodbyeLimit = 700ms;  // for a driver's workers to be gone before its connection is closed

proto::Failure invalid(std::string text, std::string next_step = {}) {
  proto::Failure failure;
  failure.set_kind(proto::INVALID);
  failure.set_text(std::move(text));
  failure.set_next_step(std::move(next_step));
  return failure;
}

base::StatusOr<rpc::PeerDoorbell> map_doorbell(const rpc::DoorbellFds& fds) {
  rpc::DoorbellFds copies;
  RAYO_ASSIGN_OR_RETURN(copies.page, base::duplicate(fds.page.get()));
  RAYO_ASSIGN_OR_RETURN(copies.main, base::duplicate(fds.main.get()));
  RAYO_ASSIGN_OR_RETURN(copies.service, base::duplicate(fds.service.get()));
  return rpc::PeerDoorbell::map(std::move(copies));
}

}  // namespace

SessionServer::SessionServer(Parts parts, const ClusterFacts& facts, std::function<void()> driver_came)
    : parts_(parts), facts_(facts), driver_came_(std::move(driver_came)) {
  parts_.starter.on_new_session(
      [this](base::Fd fd) { serve(make_unix_wire(std::make_unique<base::Stream>(parts_.loop, std::move(fd)))); });
}

SessionServer::~SessionServer() = default;

base::Status SessionServer::listen(const base::Path& socket) {
  RAYO_ASSIGN_OR_RETURN(listener_, base::UnixListener::open(parts_.loop, socket));
  sessions_.spawn("accept processes", [this] {
    while (true) {
      auto stream = listener_->accept();
      if (!stream.ok()) return;
      serve(make_unix_wire(std::move(*stream)));
    }
  });
  return absl::OkStatus();
}

void SessionServer::serve(std::unique_ptr<FrameWire> wire) {
  sessions_.spawn("session", [this, wire = std::move(wire)] { session(*wire); });
}

void SessionServer::close() {
  if (listener_) listener_->close();
  sessions_.cancel();
}

void SessionServer::session(FrameWire& wire) {
  auto first = wire.read(parts_.loop.deadline(kHelloLimit));
  if (!first.ok()) return;
  LocalProcess* process = welcome(wire, *first);
  if (!process) return;
  ProcessId id = process->id;
  bool driver = process->kind == proto::DRIVER;
  bool open = true;
  while (open) {
    auto frame = wire.read(base::kForever);
    if (!frame.ok()) {
      if (frame.status().code() == absl::StatusCode::kInvalidArgument)
        base::log().warn("process {}: {}", id.hex(), base::message(frame.status()));
      break;
    }
    uint64_t call_id = frame->call_id;
    open = dispatch_frame(parts_, id, std::move(*frame));
    if (open || !driver) continue;
    show_last_lines();
    driver_left(id, true);
    proto::ToWorker done;
    done.mutable_done();
    wire.send(call_id, done, {});
  }
  // A worker whose connection ended is ending, or is to be ended: the reaper tells how.
  if (LocalProcess* still = parts_.processes.find(id)) still->wire = nullptr;
  if (driver) return driver_left(id, false);
  parts_.starter.end(id, {}, 1s);
}

LocalProcess* SessionServer::welcome(FrameWire& wire, ReceivedFrame& frame) {
  if (!frame.message.has_hello()) {
    refuse(wire, frame.call_id, invalid("the first message is no hello"));
    return nullptr;
  }
  const auto& hello = frame.message.hello();
  if (!rpc::same_minor_version(hello.version(), base::kVersion)) {
    refuse(
        wire, frame.call_id,
        invalid(base::cat("this program was built with rayo ", hello.version(), ", the cluster runs ", base::kVersion),
                "build the program with the cluster's version"));
    return nullptr;
  }
  LocalProcess* process = hello.kind() == proto::DRIVER ? welcome_driver(wire, frame) : welcome_worker(wire, frame);
  if (!process) return nullptr;
  proto::Failure failure;
  base::Fd arena;
  if (!take_doorbell(*process, frame, failure) || !copy_arena(*process, arena, failure)) {
    const auto [id, kind] = std::pair(process->id, process->kind);  // refuse() waits, and a worker may end meanwhile
    refuse(wire, frame.call_id, std::move(failure));
    if (kind == proto::DRIVER) driver_left(id, false);
    return nullptr;
  }
  process->wire = &wire;
  parts_.objects.process_joined(process->id);
  send_reply(wire, frame.call_id, *process, std::move(arena));
  if (process->kind == proto::DRIVER) return process;
  if (parts_.starter.hello(process->id, hello, wire.peer_pid())) return process;
  process->wire = nullptr;
  return nullptr;
}

LocalProcess* SessionServer::welcome_driver(FrameWire& wire, const ReceivedFrame& frame) {
  const auto& hello = frame.message.hello();
  auto id = rpc::from_proto<ProcessId>(hello.process());
  if (!id || parts_.processes.find(id)) {
    refuse(wire, frame.call_id, invalid("a driver with this process id is connected already"));
    return nullptr;
  }
  Job job;
  job.id = base::random_id<JobId>();
  job.driver = id;
  job.node = parts_.own.id;
  job.name_space = hello.namespace_().empty() ? job.id.hex() : hello.namespace_();
  job.program = hello.program();
  job.arguments.assign(hello.arguments().begin(), hello.arguments().end());
  job.environment.assign(hello.environment().begin(), hello.environment().end());
  job.working_directory = hello.working_directory();
  LocalProcess& process = parts_.processes.add(id, proto::DRIVER, job.id);
  process.pid = hello.remote() ? static_cast<pid_t>(hello.pid()) : wire.peer_pid();
  process.remote = hello.remote();
  process.what = hello.program();
  proto::NodeUp up;
  *up.mutable_job() = job_event(job);
  up.mutable_job()->set_pid(process.pid);
  parts_.jobs.add(std::move(job));
  parts_.head.send(std::move(up));
  driver_came_();
  return &process;
}

LocalProcess* SessionServer::welcome_worker(FrameWire& wire, const ReceivedFrame& frame) {
  LocalProcess* process = parts_.processes.find(rpc::from_proto<ProcessId>(frame.message.hello().process()));
  if (process && process->kind != proto::DRIVER && !process->wire) {
    parts_.processes.set_kind(*process, frame.message.hello().kind());
    return process;
  }
  refuse(wire, frame.call_id, invalid("this raylet started no such worker"));
  return nullptr;
}

bool SessionServer::take_doorbell(LocalProcess& process, ReceivedFrame& frame, proto::Failure& failure) {
  // What the process is, not what it was started for: one with several threads cannot be the zygote and comes as a
  // worker.
  if (process.remote || frame.message.hello().kind() == proto::ZYGOTE) return true;
  if (frame.descriptors.size() != 3) {
    failure = invalid("hello came without a doorbell");
    return false;
  }
  process.doorbell_fds = {std::move(frame.descriptors[0]), std::move(frame.descriptors[1]),
                          std::move(frame.descriptors[2])};
  auto mapped = map_doorbell(process.doorbell_fds);
  if (!mapped.ok()) {
    failure = failure_of(mapped.status());
    return false;
  }
  process.doorbell.emplace(std::move(*mapped));
  return true;
}

// Empty where the process gets none.
bool SessionServer::copy_arena(const LocalProcess& process, base::Fd& copy, proto::Failure& failure) {
  const auto arena = parts_.objects.arena();
  if (arena.bytes == 0 || process.remote || process.kind == proto::ZYGOTE) return true;
  auto copied = base::duplicate(arena.fd);
  if (!copied.ok()) {
    failure = failure_of(copied.status());
    return false;
  }
  copy = std::move(*copied);
  return true;
}

void SessionServer::refuse(FrameWire& wire, uint64_t call_id, proto::Failure failure) {
  proto::ToWorker message;
  *message.mutable_hello_reply()->mutable_failure() = std::move(failure);
  wire.send(call_id, message, {});
  base::sleep_for(20ms);  // for the answer to leave before the connection is closed
}

void SessionServer::send_reply(FrameWire& wire, uint64_t call_id, const LocalProcess& process, base::Fd arena) {
  proto::ToWorker message;
  auto& reply = *message.mutable_hello_reply();
  rpc::to_proto(parts_.own.id, reply.mutable_node());
  rpc::to_proto(facts_.id, reply.mutable_cluster());
  reply.set_epoch(facts_.epoch);
  rpc::to_proto(process.job, reply.mutable_job());
  if (const Job* job = parts_.jobs.find(process.job)) reply.set_namespace_(job->name_space);
  reply.set_address(parts_.own.address);
  reply.set_machine(parts_.own.machine);
  reply.set_data_secret(facts_.data_secret);
  reply.set_idle_link_ms(std::chrono::duration_cast<std::chrono::milliseconds>(facts_.idle_link).count());
  std::vector<base::Fd> descriptors;
  if (arena) {
    reply.set_arena_bytes(parts_.objects.arena().bytes);
    descriptors.push_back(std::move(arena));
  }
  wire.send(call_id, message, std::move(descriptors));
}

// What its workers have printed is on its way: it is shown before the driver is let go.
void SessionServer::show_last_lines() {
  if (parts_.nodes.living() > 1) base::sleep_for(kFromElsewhere);
  parts_.logs.catch_up(parts_.loop.deadline(kCatchUpLimit));
}

// Its job ends with it: workers, leases and objects here, actors everywhere by way of the head.
void SessionServer::driver_left(ProcessId driver, bool said_goodbye) {
  LocalProcess* process = parts_.processes.find(driver);
  if (!process) return;
  JobId job = process->job;
  proto::DeathRecord death;
  death.set_at_unix_us(
      std::chrono::duration_cast<std::chrono::microseconds>(base::system_clock().wall().time_since_epoch()).count());
  rpc::to_proto(parts_.own.id, death.mutable_node());
  death.set_pid(process->pid);
  death.set_kind(proto::DRIVER_GONE);
  death.set_text(base::cat("driver ", process->what, " (pid ", process->pid, said_goodbye ? ") ended" : ") is gone"));
  proto::NodeUp up;
  rpc::to_proto(job, up.mutable_job()->mutable_job());
  rpc::to_proto(driver, up.mutable_job()->mutable_process());
  up.mutable_job()->set_ended(true);
  *up.mutable_job()->mutable_death() = death;
  parts_.head.send(std::move(up));
  FrameWire* wire = std::exchange(process->wire, nullptr);  // the session's: it may still say Done
  std::vector<JobId> gone = parts_.jobs.programs_of(job);
  gone.push_back(job);
  parts_.jobs.end(job, death.text());
  parts_.processes.end(driver, death);
  if (!said_goodbye || !wire) return;
  const base::TimePoint deadline = parts_.loop.deadline(kGoodbyeLimit);
  for (JobId each : gone) parts_.starter.await_job_gone(each, deadline);
}

}  // namespace rayo::raylet
