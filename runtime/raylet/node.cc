#include "runtime/raylet/node.h"

#include <algorithm>
#include <chrono>
#include <unistd.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/config.h"
#include "runtime/base/log.h"
#include "runtime/base/loop/blocking.h"
#include "runtime/base/text.h"
#include "runtime/raylet/actor_host.h"
#include "runtime/raylet/call_lists.h"
#include "runtime/raylet/data_port.h"
#include "runtime/raylet/device_health.h"
#include "runtime/raylet/head_dispatch.h"
#include "runtime/raylet/head_requests.h"
#include "runtime/raylet/output.h"
#include "runtime/raylet/raylet_services.h"
#include "runtime/raylet/resource_report.h"
#include "runtime/raylet/session_server.h"
#include "runtime/rpc/actor_lease.h"
#include "runtime/rpc/grpc/server.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr double kArenaShare = 0.3;  // of what the cgroup allows (design: the default of the arena)
constexpr base::Duration kFindJobLimit = 5s;
constexpr base::Duration kPlaceLimit = 24h;  // the head answers when it has placed one, or never will
constexpr base::Duration kAttachLimit = 10s;
constexpr base::Duration kSweepLinks = 10s;
constexpr base::Duration kListLimit = 5s;      // for NVML's answer: a driver without persistence starts each GPU anew
constexpr base::Duration kShortGrace = 100ms;  // of processes where nobody says how much they get: a signal
constexpr base::Duration kLongGrace = 1h;
constexpr base::Duration kEndLimit = 3s;  // for every process of the tree to be reaped; the keeper ends what is left

int64_t arena_bytes(const base::RayletSettings& settings, const NodeOffer& offer) {
  if (settings.object_store_bytes >= 0) return settings.object_store_bytes;
  return static_cast<int64_t>(static_cast<double>(offer.memory_limit_bytes) * kArenaShare);
}

uint64_t incarnation_now() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(base::system_clock().wall().time_since_epoch()).count());
}

rpc::TlsDial head_dial(const base::RayletSettings& settings, const rpc::JoinResult& joined) {
  rpc::TlsDial dial;
  dial.addresses = settings.head_addresses;
  dial.identity = joined.identity;
  dial.expect = {rpc::Role::kHead, joined.cluster, {}};
  return dial;
}

}  // namespace

// The order of members is the order of construction: what is used stands above its users, and is destroyed
// after them.
struct Node::State {
  base::Loop& loop;
  base::RayletSettings settings;
  NodeOffer offer;
  OwnNode own;
  rpc::JoinResult joined;
  std::unique_ptr<rpc::Port> port;
  uint64_t incarnation = incarnation_now();
  ClusterFacts facts;
  proto::Registered cluster;  // as the head told last
  base::Event stop_asked;
  std::string stop_reason;
  base::Duration end_grace = kShortGrace;  // of processes, from the word to SIGKILL

  DeviceHealth health;
  LeaseTable table;
  Nodes nodes;
  Processes processes;
  HeadLink head;
  Jobs jobs;
  PeerLinks links;
  PackageStore packages;
  Output output;
  LogFiles logs;
  WorkerGroups groups;
  WorkerStarter starter;
  PeerRaylets peers;
  ResourceReporter reporter;
  Workers workers;
  LeaseService leases;
  std::unique_ptr<HeadDispatch> dispatch;
  ActorHost actors;
  HeadRequests requests;
  CallLists calls;
  Transfer transfer;
  std::unique_ptr<ObjectService> objects;
  std::unique_ptr<Parts> parts;
  std::unique_ptr<SessionServer> sessions;
  std::unique_ptr<DataPort> data_port;
  rpc::Service service;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<rpc::LocalPort> control;
  base::WorkThreads prober{"rayo-probe", 1};
  base::Timer sweep_links;
  base::Timer confirm_leases;
  base::TaskGroup tasks;  // fibers that refer to several parts: the last to come, the first to go

  State(base::Loop& l, const base::RayletSettings& s, NodeStart start)
      : loop(l),
        settings(s),
        offer(std::move(start.offer)),
        own(std::move(start.own)),
        joined(std::move(start.joined)),
        port(std::move(start.port)),
        health(offer.listed, offer.devices),
        table(scheduler::Capacity(offer.total, offer.devices)),
        processes(own.id),
        head(loop, head_dial(settings, joined), {own.id, incarnation}),
        jobs([this](JobId job, base::TimePoint deadline) { return find_job(job, deadline); }),
        links(processes, [this](NodeId node) { return nodes.remote(node); }),
        packages(settings.node_dir / "packages"),
        output(loop, own, processes, jobs, head),
        logs(loop, settings.node_dir / "workers", [this](PrintedLines printed) { output.printed(std::move(printed)); }),
        groups(base::divisible_cgroups(), base::cat("rayo-", ::getpid(), "-", own.id.hex())),
        starter(loop, processes, jobs, logs, base::NodeFiles{settings.node_dir}.raylet_socket(),
                [this](PackageId package, base::TimePoint deadline) {
                  return packages.open(package, &head.channel(), deadline);
                }),
        peers(loop, processes, nodes, joined.identity, joined.cluster),
        reporter(
            loop, [this] { return make_report(); },
            [this](proto::ResourceReport report) {
              proto::NodeUp up;
              *up.mutable_resources() = std::move(report);
              head.send(std::move(up));
            }),
        workers(loop, processes, jobs, starter, pool_limits()),
        leases(loop, own, table, processes, workers, lease_outside()),
        actors(loop, table, leases, processes, workers,
               [this](const proto::ActorInfo& info) { dispatch->tell_actor(info); }),
        requests(loop, processes, jobs, head),
        calls(processes),
        transfer(loop, joined.data_secret) {
    if (start.open_files) starter.use_open_files(*start.open_files);
    starter.use_python(settings.python);
  }

  PoolLimits pool_limits() const {
    PoolLimits limits;
    limits.spare = offer.total.get("cpu").value() >= 2 ? 2 : 1;
    return limits;
  }

  void wire_ends() {
    actors.on_hosted([this](ActorId actor, ProcessId worker) {
      for (ProcessId watcher : requests.watchers(actor)) links.introduce(watcher, worker);
    });
    requests.on_create([this](const proto::ActorSpec& spec) { return start_here(spec); },
                       [this](ActorId actor, const proto::Failure& why) { end_here(actor, why); });
    starter.use_groups(groups);
    processes.on_end([this](const LocalProcess& process, const proto::DeathRecord& death) {
      actors.process_gone(process, death);
      leases.process_gone(process);
      objects->process_gone(process.id, death);
      requests.process_gone(process.id);
      calls.process_gone(process.id);
      packages.sender_gone(process.id);
      if (process.kind != proto::ZYGOTE) {
        proto::NodeUp up;
        rpc::to_proto(process.id, up.mutable_worker_died()->mutable_process());
        *up.mutable_worker_died()->mutable_death() = death;
        head.send(std::move(up));
      }
      reporter.changed();
    });
    sweep_links = loop.every(kSweepLinks, [this] { links.sweep(); });
    processes.on_come([this] { reporter.changed(); });
    jobs.on_end([this](JobId job, const std::string&) {
      leases.job_gone(job);
      packages.trim(jobs.packages());
    });
  }

  bool start_here(const proto::ActorSpec& spec) {
    const scheduler::ViewNode here{.id = own.id,
                                   .name = own.hostname,
                                   .labels = own.labels,
                                   .machine = own.machine,
                                   .capacity = table.ledger().capacity(),
                                   .soft_load = actors.soft_load()};
    if (!may_start_here(spec, jobs.find(rpc::from_proto<JobId>(spec.job())), here)) return false;
    proto::StartActor start;
    *start.mutable_spec() = spec;
    start.set_incarnation(1);
    rpc::to_proto(rpc::lease_of(rpc::from_proto<ActorId>(spec.actor()), 1), start.mutable_lease());
    actors.start(start);
    return true;
  }

  void end_here(ActorId actor, const proto::Failure& why) {
    proto::EndActor end;
    rpc::to_proto(actor, end.mutable_actor());
    end.set_incarnation(1);
    end.mutable_why()->set_kind(proto::START_FAILED);
    end.mutable_why()->set_text(base::cat("the head did not take it: ", why.text()));
    actors.end(end);
  }

  LeaseService::Outside lease_outside() {
    return {.place =
                [this](const proto::PlaceLeasesRequest& request) {
                  return head.place_leases(request, loop.deadline(kPlaceLimit));
                },
            .end_lease_from = [this](NodeId node,
                                     const proto::EndLeaseFromRequest& request) { peers.end_lease(node, request); },
            .check_leases = [this](NodeId node, const auto& request) { return peers.check_leases(node, request); },
            .resources_changed = [this] { reporter.changed(); }};
  }

  base::StatusOr<proto::JobInfo> find_job(JobId job, base::TimePoint deadline) {
    proto::RelayRequest request;
    rpc::to_proto(own.id, request.mutable_node());
    rpc::to_proto(job, request.mutable_job());
    rpc::to_proto(job, request.mutable_find_job()->mutable_job());
    RAYO_ASSIGN_OR_RETURN(auto reply, head.relay(request, std::min(deadline, loop.deadline(kFindJobLimit))));
    if (reply.failure().kind() != proto::FAILURE_UNSPECIFIED) return status_of(reply.failure());
    return reply.job();
  }

  // Devices come and go: while the node lives, NVML is asked again and again, in its child.
  void watch_devices(base::Duration each) {
    if (health.offered().empty()) return;
    tasks.spawn("devices", [this, each] {
      while (base::sleep_for(each)) {
        auto list = base::run_on_thread(prober, [this] { return gpu::list_devices(loop.deadline(kListLimit)); });
        auto leased = [this](const std::string& uuid) {
          const auto& devices = table.ledger().capacity().devices();
          auto device = std::ranges::find(devices, uuid, &scheduler::Device::uuid);
          return device != devices.end() && !device->untouched();
        };
        if (health.update(list, leased)) table.update_devices(health.offered());
        leases.pump();
      }
    });
  }

  proto::ResourceReport make_report() {
    proto::ResourceReport report;
    const auto& capacity = table.ledger().capacity();
    *report.mutable_total() = rpc::to_proto(capacity.total());
    *report.mutable_free() = rpc::to_proto(capacity.free());
    for (auto& device : describe_devices(health.listed(), capacity.devices()))
      *report.add_devices() = std::move(device);
    report.set_object_store_used_bytes(objects->used_bytes());
    report.set_workers(processes.count(proto::WORKER));
    report.set_drivers(processes.count(proto::DRIVER));
    for (auto& shape : leases.pending()) *report.add_pending() = std::move(shape);
    report.set_applied_request(dispatch->applied_request());
    return report;
  }

  proto::NodeInfo own_info() const {
    auto info = node_info(own, settings, table.ledger().capacity(), health.listed());
    info.set_object_store_capacity_bytes(objects->arena().bytes);
    info.set_object_store_used_bytes(objects->used_bytes());
    info.set_workers(processes.count(proto::WORKER));
    info.set_drivers(processes.count(proto::DRIVER));
    return info;
  }

  proto::Register make_register() {
    proto::Register message;
    *message.mutable_node() = own_info();
    message.set_incarnation(incarnation);
    for (auto& actor : actors.running())
      if (!requests.unknown_to_head(rpc::from_proto<ActorId>(actor.actor()))) *message.add_actors() = std::move(actor);
    if (facts.epoch != 0) rpc::to_proto(facts.id, message.mutable_cluster());
    return message;
  }

  void name_cluster(proto::StatusReply& status) const {
    rpc::to_proto(facts.id, status.mutable_cluster());
    status.set_name(cluster.cluster_name());
    status.set_epoch(cluster.epoch());
    status.set_http(cluster.http());
    if (status.address().empty() && !settings.head_addresses.empty()) status.set_address(settings.head_addresses[0]);
  }

  void ask_to_stop(const std::string& reason, base::Duration grace) {
    if (stop_asked.is_set()) return;
    stop_reason = reason;
    end_grace = std::clamp<base::Duration>(grace, kShortGrace, kLongGrace);
    stop_asked.set();
  }

  base::Status build_parts() {
    auto made = make_object_service(peers, loop, transfer, arena_bytes(settings, offer));
    RAYO_RETURN_IF_ERROR(made.status());
    objects = std::move(*made);
    objects->on_used_changed([this] { reporter.changed(); });
    objects->on_inner_actors([this](const proto::HoldRefs& handles) { requests.hold_actors({}, 0, handles); });
    parts = std::make_unique<Parts>(Parts{loop, own, processes, jobs, packages, starter, workers, leases, actors, links,
                                          *objects, nodes, head, requests, output, logs, calls, tasks});
    dispatch = std::make_unique<HeadDispatch>(*parts, peers, [this](const proto::LeaveNow& leave) {
      ask_to_stop(leave.reason(), base::span_of_ms(leave.grace_ms()));
    });
    sessions = std::make_unique<SessionServer>(*parts, facts, [this] { reporter.changed(); });
    data_port = std::make_unique<DataPort>(loop, joined.data_secret, links, transfer, *sessions);
    head.set_handlers(
        {.make_register = [this] { return make_register(); },
         .registered = [this](const proto::Registered& registered) { dispatch->registered(registered, false); },
         .message = [this](proto::NodeDown message) { dispatch->message(std::move(message)); },
         .ended = [this](const std::string& why) { ask_to_stop(why, kShortGrace); }});
    wire_ends();
    return absl::OkStatus();
  }

  base::Status serve() {
    base::NodeFiles files{settings.node_dir};
    add_object_methods(service, *parts);
    add_node_methods(service, *parts);
    add_cli_methods(service, *parts,
                    {.daemon_log = files.log(),
                     .logs = &logs,
                     .own_info = [this] { return own_info(); },
                     .name_cluster = [this](proto::StatusReply& status) { name_cluster(status); },
                     .stop = [this](base::Duration grace) { ask_to_stop("stopped by rayo stop", grace); }});
    server = std::make_unique<rpc::Server>(loop, service,
                                           rpc::ServerOptions{.identity = joined.identity, .cluster = joined.cluster});
    RAYO_RETURN_IF_ERROR(server->start());
    port->serve(
        {.tls = [this](base::Fd fd) { server->accept_tls(std::move(fd)); },
         .data = [this](base::Fd fd, rpc::DataHeaderBytes header) { data_port->accept(std::move(fd), header); }});
    RAYO_ASSIGN_OR_RETURN(control, rpc::LocalPort::open(loop, files.control_socket(),
                                                        [this](base::Fd fd) { server->accept_local(std::move(fd)); }));
    RAYO_RETURN_IF_ERROR(packages.prepare());
    RAYO_RETURN_IF_ERROR(logs.start());
    return sessions->listen(files.raylet_socket());
  }
};

Node::Node(base::Loop& loop, const base::RayletSettings& settings, NodeStart start)
    : state_(std::make_unique<State>(loop, settings, std::move(start))) {}

Node::~Node() = default;

base::StatusOr<proto::Registered> Node::open() {
  State& s = *state_;
  RAYO_RETURN_IF_ERROR(s.build_parts());
  // The port answers before the head hears of it: the head tries it.
  s.facts.id = s.joined.cluster;
  s.facts.data_secret = rpc::to_bytes(s.joined.data_secret);
  RAYO_RETURN_IF_ERROR(s.serve());
  RAYO_ASSIGN_OR_RETURN(auto registered, s.head.attach(s.loop.deadline(kAttachLimit)));
  s.facts.epoch = registered.epoch();
  auto config = base::Config::from_head({registered.config().begin(), registered.config().end()});
  s.facts.idle_link = config.duration("links.idle_after");
  s.watch_devices(config.duration("devices.list_each"));
  base::Duration each = config.duration("leases.confirm_each");
  s.confirm_leases = s.loop.every(each / 2, [&s, each] { s.leases.confirm_leases(each); });
  s.cluster = registered;
  s.dispatch->registered(registered, true);
  s.head.run();
  s.reporter.changed();
  return registered;
}

void Node::ask_to_stop(const std::string& reason) { state_->ask_to_stop(reason, kShortGrace); }
base::Duration Node::end_limit() const { return state_->end_grace + kEndLimit; }
base::Event& Node::stop_asked() { return state_->stop_asked; }
const std::string& Node::stop_reason() const { return state_->stop_reason; }

void Node::close() {
  State& s = *state_;
  base::log().info("stopping: {}", s.stop_reason);
  // Until it has left, the head takes what its processes give back for free.
  s.leases.stop_granting();
  s.actors.refuse_all();
  if (s.sessions) s.starter.end_all(s.end_grace, s.loop.deadline(end_limit()));
  s.head.leave(s.stop_reason, s.loop.deadline(1s));
  if (s.control) s.control->close();
  s.port->close();
  if (s.sessions) s.sessions->close();
  if (s.server) s.server->shutdown(s.loop.deadline(500ms));
  s.tasks.cancel();
  s.tasks.join();
  s.actors.end_fibers();
  s.starter.end_fibers();
  s.transfer.end_fibers();
  s.peers.end_fibers();
}

}  // namespace rayo::raylet
