#include "runtime/raylet/raylet_services.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#include "runtime/base/address.h"
#include "runtime/base/ids.h"
#include "runtime/base/loop/blocking.h"
#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/raylet/actor_host.h"
#include "runtime/raylet/call_lists.h"
#include "runtime/raylet/head_link.h"
#include "runtime/raylet/lease_service.h"
#include "runtime/raylet/nodes.h"
#include "runtime/raylet/object_service.h"
#include "runtime/raylet/processes.h"
#include "runtime/raylet/verdict.h"
#include "runtime/raylet/workers.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/grpc/methods.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kReachLimit = 2s;  // for a connect to the address that is tried
constexpr base::Duration kHeadStatusLimit = 300ms;
constexpr base::Duration kFollowEach = 200ms;
constexpr base::Duration kCallsLimit = 1s;  // for processes to tell their calls; the head waits 2 s
constexpr size_t kMostObjects = 50'000;     // in one answer: the largest
constexpr size_t kLogPiece = 256u << 10;    // bytes of one LogChunk
constexpr size_t kTailBytes = 4u << 20;     // looked at for the last lines

// Waits until the object is known; the caller's end of the call ends the wait.
base::StatusOr<proto::AskObjectReply> ask_object(ObjectService& objects, const proto::AskObjectRequest& request,
                                                 rpc::Call& call) {
  auto answer = std::make_shared<base::OneShot<proto::AskObjectReply>>();
  const uint64_t ask = objects.ask(request, [answer](proto::AskObjectReply reply) { answer->set(std::move(reply)); });
  while (!answer->is_set() && !call.gone().is_set()) {
    if (auto reply = answer->wait(base::deadline_after(base::system_clock().now(), 1s))) return std::move(*reply);
    if (base::fiber_cancelled()) break;
  }
  if (auto reply = answer->wait(base::system_clock().now())) return std::move(*reply);
  objects.cancel_ask(ask);
  return base::failed(absl::StatusCode::kCancelled, "the caller is gone");
}

template <class Request>
base::Status in_own_name(const Request& request, const rpc::Call& call) {
  return call.peer().may_act_for(rpc::from_proto<NodeId>(request.node()));
}

std::string read_from(int fd, off_t at, size_t limit) {
  std::string bytes(limit, '\0');
  ssize_t got = ::pread(fd, bytes.data(), limit, at);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

// One of the files of a process that `logs` shows.
struct OpenLog {
  base::Fd fd;
  bool error = false;
  off_t at = 0;
};

base::Status send_news(OpenLog& log, rpc::MessageStream<proto::ReadLogRequest, proto::LogChunk>& writer) {
  while (true) {
    std::string bytes = read_from(log.fd.get(), log.at, kLogPiece);
    if (bytes.empty()) {
      struct stat info {};
      if (::fstat(log.fd.get(), &info) == 0 && info.st_size < log.at) log.at = 0;  // it was cut
      return absl::OkStatus();
    }
    log.at += static_cast<off_t>(bytes.size());
    proto::LogChunk chunk;
    chunk.set_data(std::move(bytes));
    chunk.set_error(log.error);
    RAYO_RETURN_IF_ERROR(writer.write(chunk));
  }
}

// Where the last `lines` lines of a file begin; a negative number: all of it.
off_t tail_offset(int fd, int64_t lines) {
  struct stat info {};
  if (lines < 0 || ::fstat(fd, &info) != 0) return 0;
  off_t from = std::max<off_t>(0, info.st_size - static_cast<off_t>(kTailBytes));
  std::string bytes = read_from(fd, from, kTailBytes);
  return from + static_cast<off_t>(bytes.size() - base::last_lines(bytes, lines).size());
}

base::Status read_log(const CliAnswers& answers, const proto::ReadLogRequest& request,
                      rpc::MessageStream<proto::ReadLogRequest, proto::LogChunk>& writer, rpc::Call& call) {
  auto process = rpc::from_proto<ProcessId>(request.process());
  std::vector<base::Path> files = {answers.daemon_log};
  if (process) files = {answers.logs->path(process, false), answers.logs->path(process, true)};
  std::vector<OpenLog> logs;
  for (size_t i = 0; i < files.size(); ++i) {
    base::Fd fd(::open(files[i].c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) continue;
    off_t at = tail_offset(fd.get(), request.tail_lines());
    logs.push_back({std::move(fd), i == 1, at});
  }
  if (logs.empty())
    return base::failed(absl::StatusCode::kNotFound,
                        base::cat("no output of process ", process.hex(), " on this node"));
  while (true) {
    for (auto& log : logs) RAYO_RETURN_IF_ERROR(send_news(log, writer));
    if (!request.follow() || call.gone().is_set()) return absl::OkStatus();
    if (!base::sleep_for(kFollowEach)) return absl::OkStatus();
  }
}

// With the processes of this node that made them.
std::vector<proto::ObjectInfo> objects_here(const Parts& parts, const std::vector<proto::WorkerInfo>& workers) {
  std::unordered_map<uint64_t, const proto::WorkerInfo*> makers;
  for (const auto& worker : workers) makers[base::short_id(rpc::from_proto<ProcessId>(worker.process()))] = &worker;
  auto objects = parts.objects.list();
  if (objects.size() > kMostObjects) {
    std::ranges::nth_element(objects, objects.begin() + kMostObjects, std::greater<>(), &proto::ObjectInfo::size_bytes);
    objects.resize(kMostObjects);
  }
  for (auto& object : objects) {
    auto maker = makers.find(object.object().process());
    if (maker == makers.end()) continue;
    *object.mutable_maker() = maker->second->process();
    object.set_maker_pid(maker->second->pid());
  }
  return objects;
}

proto::ListReply list_here(Parts& parts, const std::string& what) {
  proto::ListReply reply;
  if (what == "tasks") {
    for (auto& calls : parts.calls.ask_all(parts.loop.deadline(kCallsLimit))) *reply.add_calls() = std::move(calls);
    return reply;
  }
  auto state_of = [&parts](ProcessId id) {
    std::string state = parts.workers.state_name(id);
    return state.empty() ? "running" : state;  // a driver, a zygote
  };
  auto workers = parts.processes.list(state_of);
  if (what == "objects") {
    for (auto& object : objects_here(parts, workers)) *reply.add_objects() = std::move(object);
    return reply;
  }
  for (auto& info : workers) *reply.add_workers() = std::move(info);
  return reply;
}

// The actors of this node: all that a raylet knows for itself.
void show_own_actors(Parts& parts, proto::StatusReply& status) {
  status.clear_named_actors();
  int starting = 0, alive = 0;
  for (auto& actor : parts.actors.running()) {
    ++(actor.state() == proto::ALIVE ? alive : starting);
    if (!actor.name().empty()) *status.add_named_actors() = std::move(actor);
  }
  status.set_actors_pending(0);
  status.set_actors_starting(starting);
  status.set_actors_alive(alive);
  status.set_actors_restarting(0);
}

// What the head says; where it does not answer, what this raylet last knew.
proto::StatusReply local_status(Parts& parts, const CliAnswers& answers, proto::StatusReply& last) {
  auto fresh =
      parts.head.channel().call(rpc::head::kGetStatus, proto::StatusRequest(), parts.loop.deadline(kHeadStatusLimit));
  if (fresh.ok()) {
    last = *fresh;
    return *fresh;
  }
  proto::StatusReply status = last;
  answers.name_cluster(status);
  status.set_version(std::string(base::kVersion));
  status.clear_nodes();
  status.clear_pending();  // the head's alone to know; what it said of it may be hours old
  status.set_actors_dead(0);
  status.set_reachable(false);
  status.set_as_of_unix_us(
      std::chrono::duration_cast<std::chrono::microseconds>(parts.head.last_seen().time_since_epoch()).count());
  show_own_actors(parts, status);
  auto own = answers.own_info();
  double away = base::seconds(base::system_clock().wall() - parts.head.last_seen());
  for (auto& node : parts.nodes.all()) {
    bool here = rpc::from_proto<NodeId>(node.node()) == parts.own.id;
    *status.add_nodes() = here ? own : node;
    if (!here) status.mutable_nodes()->rbegin()->set_last_seen_seconds_ago(node.last_seen_seconds_ago() + away);
  }
  return status;
}

}  // namespace

void add_object_methods(rpc::Service& service, Parts& parts) {
  service.on(
      rpc::raylet::kAskObject,
      [&parts](const proto::AskObjectRequest& request, rpc::Call& call) -> base::StatusOr<proto::AskObjectReply> {
        RAYO_RETURN_IF_ERROR(in_own_name(request, call));
        return ask_object(parts.objects, request, call);
      });
  service.on(
      rpc::raylet::kHoldObjects,
      [&parts](const proto::HoldObjectsRequest& request, rpc::Call& call) -> base::StatusOr<proto::HoldObjectsReply> {
        RAYO_RETURN_IF_ERROR(in_own_name(request, call));
        return parts.objects.hold(request);
      });
  service.on(rpc::raylet::kDropCopies,
             [&parts](const proto::DropCopiesRequest& request, rpc::Call& call) -> base::StatusOr<proto::Done> {
               RAYO_RETURN_IF_ERROR(in_own_name(request, call));
               return parts.objects.drop_copies(request);
             });
}

void add_node_methods(rpc::Service& service, Parts& parts) {
  auto dialler = std::make_shared<base::WorkThreads>("rayo-reach", 1);
  service.on(rpc::raylet::kCheckReach, [&parts, dialler](const proto::CheckReachRequest& request, rpc::Call&) {
    proto::CheckReachReply reply;
    auto address = base::parse_host_port(request.address());
    base::Status reached =
        address.ok() ? base::run_on_thread(
                           *dialler, [&] { return rpc::dial(*address, parts.loop.deadline(kReachLimit)).status(); })
                     : address.status();
    reply.set_reached(reached.ok());
    if (!reached.ok()) reply.set_text(std::string(base::message(reached)));
    return base::StatusOr<proto::CheckReachReply>(reply);
  });
  service.on(rpc::raylet::kEndLeaseFrom, [&parts](const proto::EndLeaseFromRequest& request, rpc::Call&) {
    parts.leases.end_lease(rpc::from_proto<LeaseId>(request.lease()), worker_after(request));
    return base::StatusOr<proto::Done>(proto::Done());
  });
  service.on(rpc::raylet::kCheckLeases, [&parts](const proto::CheckLeasesRequest& request, rpc::Call&) {
    return base::StatusOr<proto::CheckLeasesReply>(parts.leases.unknown_leases(request));
  });
}

void add_cli_methods(rpc::Service& service, Parts& parts, CliAnswers answers) {
  service.on(rpc::raylet::kGetLocalStatus,
             [&parts, answers, last = proto::StatusReply()](const proto::StatusRequest&, rpc::Call&) mutable {
               return base::StatusOr<proto::StatusReply>(local_status(parts, answers, last));
             });
  service.on(rpc::raylet::kListHere, [&parts](const proto::ListRequest& request, rpc::Call&) {
    return base::StatusOr<proto::ListReply>(list_here(parts, request.what()));
  });
  service.on(rpc::raylet::kReadLog, [answers](const proto::ReadLogRequest& request, auto& writer, rpc::Call& call) {
    return read_log(answers, request, writer, call);
  });
  service.on(rpc::raylet::kStopNode, [answers](const proto::StopRequest& request, rpc::Call&) {
    answers.stop(base::span_of_ms(request.grace_ms()));
    return base::StatusOr<proto::Done>(proto::Done());
  });
}

}  // namespace rayo::raylet
