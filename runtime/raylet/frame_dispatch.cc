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
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

void reply_package(Parts& parts, ProcessId to, uint64_t call_id, bool needed, const base::Status& status) {
  proto::ToWorker message;
  message.mutable_package_reply()->set_needed(needed);
  if (!status.ok()) *message.mutable_package_reply()->mutable_failure() = failure_of(status);
  parts.processes.send(to, call_id, message);
}

// The job's program is here: workers may be started, and the head is told.
void package_here(Parts& parts, ProcessId from, PackageId package) {
  LocalProcess* process = parts.processes.find(from);
  if (!process || process->kind != proto::DRIVER) return;
  parts.jobs.set_package(process->job, package);
  if (const Job* job = parts.jobs.find(process->job)) {
    proto::NodeUp up;
    *up.mutable_job() = job_event(*job);
    up.mutable_job()->set_pid(process->pid);
    parts.head.send(std::move(up));
  }
  parts.workers.open_job(process->job);
  if (parts.nodes.living() > 1) upload_packages(parts);
}

void offer_package(Parts& parts, ProcessId from, ReceivedFrame& frame) {
  const auto& offer = frame.message.offer_package();
  auto package = rpc::from_proto<PackageId>(offer.package());
  base::Status status;
  if (offer.with_file() && frame.descriptors.size() == 1)
    status = parts.packages.adopt(package, offer.size_bytes(), std::move(frame.descriptors[0]));
  bool here = parts.packages.has(package);
  if (here) package_here(parts, from, package);
  reply_package(parts, from, frame.call_id, !here && status.ok(), status);
}

void package_chunk(Parts& parts, ProcessId from, const ReceivedFrame& frame) {
  const auto& chunk = frame.message.package_chunk();
  base::Status status = parts.packages.receive(chunk);
  if (status.ok() && chunk.last()) package_here(parts, from, rpc::from_proto<PackageId>(chunk.package()));
  if (frame.call_id != 0) reply_package(parts, from, frame.call_id, status.ok() && !chunk.last(), status);
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

}  // namespace

bool dispatch_frame(Parts& parts, ProcessId from, ReceivedFrame frame) {
  const auto& message = frame.message;
  switch (message.message_case()) {
    case proto::ToRaylet::kOfferPackage:
      offer_package(parts, from, frame);
      return true;
    case proto::ToRaylet::kPackageChunk:
      package_chunk(parts, from, frame);
      return true;
    case proto::ToRaylet::kActorStarted:
      parts.actors.started(from, message.actor_started());
      return true;
    case proto::ToRaylet::kConnect:
      parts.links.connect(from, frame.call_id, message.connect());
      return true;
    case proto::ToRaylet::kRequestLeases:
      parts.leases.request(from, message.request_leases());
      return true;
    case proto::ToRaylet::kReturnLease:
      parts.leases.give_back(from, message.return_lease());
      return true;
    case proto::ToRaylet::kLendCpu:
      parts.leases.lend_cpu(from, frame.call_id, message.lend_cpu());
      return true;
    case proto::ToRaylet::kForkDone:
      parts.starter.fork_done(message.fork_done());
      return true;
    case proto::ToRaylet::kHoldRefs:
      parts.requests.hold_actors(from, message.hold_refs());
      parts.objects.hold_refs(from, frame.call_id, message.hold_refs());
      return true;
    case proto::ToRaylet::kCreateActor:
    case proto::ToRaylet::kWatchActor:
    case proto::ToRaylet::kUnwatchActor:
    case proto::ToRaylet::kFindActor:
    case proto::ToRaylet::kKillActor:
    case proto::ToRaylet::kKeyValue:
    case proto::ToRaylet::kListNodes:
      parts.requests.ask(from, frame.call_id, message);
      return true;
    case proto::ToRaylet::kPublishObject:
    case proto::ToRaylet::kResolveObject:
    case proto::ToRaylet::kCancelResolve:
    case proto::ToRaylet::kCreateObject:
    case proto::ToRaylet::kSealObject:
    case proto::ToRaylet::kReleaseObject:
    case proto::ToRaylet::kReadObject:
      objects_frame(parts.objects, from, frame);
      return true;
    case proto::ToRaylet::kCallsTold:
      parts.calls.told(from, message.calls_told());
      return true;
    case proto::ToRaylet::kGoodbye:
      return false;
    case proto::ToRaylet::kHello:
    case proto::ToRaylet::MESSAGE_NOT_SET:
      break;
  }
  base::log().warn("process {}: a message of a kind that is not expected ({})", from.hex(),
                   static_cast<int>(message.message_case()));
  return true;
}

}  // namespace rayo::raylet
