#include "runtime/raylet/frame_dispatch.h"

#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/raylet/actor_host.h"
#include "runtime/raylet/call_lists.h"
#include "runtime/raylet/head_requests.h"
#include "runtime/raylet/jobs.h"
#include "runtime/raylet/lease_service.h"
#include "runtime/raylet/nodes.h"
#include "runtime/raylet/object_service.h"
#include "runtime/raylet/package_store.h"
#include "runtime/raylet/package_upload.h"
#include "runtime/raylet/peer_links.h"
#include "runtime/raylet/worker_starter.h"
#include "runtime/rpc/own_job.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

void reply_package(Parts& parts, ProcessId to, uint64_t call_id, bool needed, const base::Status& status,
                   JobId job = {}) {
  proto::ToWorker message;
  message.mutable_package_reply()->set_needed(needed);
  if (job) rpc::to_proto(job, message.mutable_package_reply()->mutable_job());
  if (!status.ok()) *message.mutable_package_reply()->mutable_failure() = failure_of(status);
  parts.processes.send(to, call_id, message);
}

void announce(Parts& parts, const Job& job, pid_t pid) {
  proto::NodeUp up;
  *up.mutable_job() = job_event(job);
  up.mutable_job()->set_pid(pid);
  parts.head.send(std::move(up));
}

// A program beside the job's own has a job too: everything that belongs to programs is kept by job. Asked twice, or by
// two processes, it is the same.
JobId open_program(Parts& parts, const LocalProcess& process, PackageId package, const std::string& program) {
  const Job* parent = parts.jobs.find(process.job);
  if (!parent) return {};
  const JobId id = rpc::job_of_program(parent->id, package);
  if (!parts.jobs.find(id)) {
    Job own = *parent;
    own.id = id;
    own.parent = parent->id;
    own.package = package;
    own.program = program;
    own.arguments = {program};
    announce(parts, parts.jobs.add(std::move(own)), process.pid);
  }
  parts.workers.open_job(id);
  if (parts.nodes.living() > 1) upload_package(parts, package);
  return id;
}

// A program is here: workers may be started, and the head is told. The job of one beside the driver's own.
JobId package_here(Parts& parts, ProcessId from, PackageId package, const std::string& program) {
  LocalProcess* process = parts.processes.find(from);
  if (!process) return {};
  if (!program.empty()) return open_program(parts, *process, package, program);
  if (process->kind != proto::DRIVER) return {};
  parts.jobs.set_package(process->job, package);
  if (const Job* job = parts.jobs.find(process->job)) announce(parts, *job, process->pid);
  parts.workers.open_job(process->job);
  if (parts.nodes.living() > 1) upload_packages(parts);
  return {};
}

void offer_package(Parts& parts, ProcessId from, ReceivedFrame& frame) {
  const auto& offer = frame.message.offer_package();
  auto package = rpc::from_proto<PackageId>(offer.package());
  base::Status status;
  if (offer.with_file() && frame.descriptors.size() == 1)
    status = parts.packages.adopt(package, offer.size_bytes(), std::move(frame.descriptors[0]));
  bool here = parts.packages.has(package);
  JobId job = here ? package_here(parts, from, package, offer.program()) : JobId{};
  reply_package(parts, from, frame.call_id, !here && status.ok(), status, job);
}

void package_chunk(Parts& parts, ProcessId from, const ReceivedFrame& frame) {
  if (!parts.processes.find(from)) return;  // what it still had to say when it ended
  const auto& chunk = frame.message.package_chunk();
  base::Status status = parts.packages.receive(from, chunk);
  JobId job;
  if (status.ok() && chunk.last())
    job = package_here(parts, from, rpc::from_proto<PackageId>(chunk.package()), chunk.program());
  if (frame.call_id != 0) reply_package(parts, from, frame.call_id, status.ok() && !chunk.last(), status, job);
}

void objects_frame(ObjectService& objects, ProcessId from, const ReceivedFrame& frame) {
  const auto& message = frame.message;
  switch (message.message_case()) {
    case proto::ToRaylet::kPublishObject:
      return objects.publish(from, message.publish_object());
    case proto::ToRaylet::kResolveObject:
      return objects.resolve(from, frame.call_id, message.resolve_object());
    case proto::ToRaylet::kCancelResolve:
      return objects.cancel_resolve(from, message.cancel_resolve());
    case proto::ToRaylet::kCreateObject:
      return objects.create(from, frame.call_id, message.create_object());
    case proto::ToRaylet::kSealObject:
      return objects.seal(from, frame.call_id, message.seal_object());
    case proto::ToRaylet::kReadObject:
      return objects.read(from, frame.call_id, message.read_object());
    default:
      return objects.release(from, message.release_object());
  }
}

void hold_refs(Parts& parts, ProcessId from, uint64_t call_id, const proto::HoldRefs& refs) {
  const bool answered_later = parts.requests.hold_actors(from, call_id, refs);
  parts.objects.hold_refs(from, answered_later ? 0 : call_id, refs);
}

void act_on(Parts& parts, ProcessId from, ReceivedFrame& frame) {
  const auto& message = frame.message;
  switch (message.message_case()) {
    case proto::ToRaylet::kOfferPackage:
      return offer_package(parts, from, frame);
    case proto::ToRaylet::kPackageChunk:
      return package_chunk(parts, from, frame);
    case proto::ToRaylet::kActorStarted:
      return parts.actors.started(from, message.actor_started());
    case proto::ToRaylet::kConnect:
      return parts.links.connect(from, frame.call_id, message.connect());
    case proto::ToRaylet::kRequestLeases:
      return parts.leases.request(from, message.request_leases());
    case proto::ToRaylet::kReturnLease:
      return parts.leases.give_back(from, message.return_lease());
    case proto::ToRaylet::kLendCpu:
      return parts.leases.lend_cpu(from, frame.call_id, message.lend_cpu());
    case proto::ToRaylet::kForkDone:
      return parts.starter.fork_done(message.fork_done());
    case proto::ToRaylet::kHoldRefs:
      return hold_refs(parts, from, frame.call_id, message.hold_refs());
    case proto::ToRaylet::kCreateActor:
    case proto::ToRaylet::kWatchActor:
    case proto::ToRaylet::kUnwatchActor:
    case proto::ToRaylet::kFindActor:
    case proto::ToRaylet::kKillActor:
    case proto::ToRaylet::kKeyValue:
    case proto::ToRaylet::kListNodes:
      return parts.requests.ask(from, frame.call_id, message);
    case proto::ToRaylet::kPublishObject:
    case proto::ToRaylet::kResolveObject:
    case proto::ToRaylet::kCancelResolve:
    case proto::ToRaylet::kCreateObject:
    case proto::ToRaylet::kSealObject:
    case proto::ToRaylet::kReleaseObject:
    case proto::ToRaylet::kReadObject:
      return objects_frame(parts.objects, from, frame);
    case proto::ToRaylet::kCallsTold:
      return parts.calls.told(from, message.calls_told());
    default:
      base::log().warn("process {}: a message of a kind that is not expected ({})", from.hex(),
                       static_cast<int>(message.message_case()));
  }
}

}  // namespace

bool dispatch_frame(Parts& parts, ProcessId from, ReceivedFrame frame) {
  if (frame.message.has_goodbye()) return false;
  act_on(parts, from, frame);
  return true;
}

}  // namespace rayo::raylet
