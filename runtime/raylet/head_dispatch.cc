#include "runtime/raylet/head_dispatch.h"

#include <algorithm>

#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/raylet/actor_host.h"
#include "runtime/raylet/head_requests.h"
#include "runtime/raylet/jobs.h"
#include "runtime/raylet/lease_service.h"
#include "runtime/raylet/nodes.h"
#include "runtime/raylet/output.h"
#include "runtime/raylet/package_upload.h"
#include "runtime/raylet/peer_links.h"
#include "runtime/raylet/processes.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kGrantLimit = 60s;
constexpr size_t kEndsKept = 1000;  // actors' ends that are told again when the head comes back

}  // namespace

HeadDispatch::HeadDispatch(Parts parts, PeerRaylets& peers, std::function<void(const proto::LeaveNow&)> leave)
    : parts_(parts), peers_(peers), leave_(std::move(leave)) {}

void HeadDispatch::message(proto::NodeDown message) {
  switch (message.message_case()) {
    case proto::NodeDown::kNode:
      return node_news(message.node());
    case proto::NodeDown::kActor:
      return parts_.requests.learn(message.actor(), ActorCache::Source::kHead);
    case proto::NodeDown::kStartActor:
      parts_.actors.start(message.start_actor());
      applied_request_ = std::max(applied_request_, message.request());
      return;
    case proto::NodeDown::kEndActor:
      return parts_.actors.end(message.end_actor());
    case proto::NodeDown::kGrant:
      return grant(message.request(), message.grant());
    case proto::NodeDown::kJob:
      return parts_.jobs.learn(message.job());
    case proto::NodeDown::kLeaveNow:
      return leave_(message.leave_now());
    case proto::NodeDown::kWorkerDied:
      return parts_.links.remote_gone(rpc::from_proto<NodeId>(message.worker_died().node()),
                                      rpc::from_proto<ProcessId>(message.worker_died().process()),
                                      message.worker_died().death());
    case proto::NodeDown::kEndLease:
      return parts_.leases.end_lease(
          rpc::from_proto<LeaseId>(message.end_lease().lease()),
          message.end_lease().worker_suspect() ? WorkerAfter::kSuspect : WorkerAfter::kGoesOn);
    case proto::NodeDown::kLogLines:
      return parts_.output.from_head(message.log_lines());
    case proto::NodeDown::kNotice:
      return parts_.output.notice(message.notice());
    case proto::NodeDown::kAskStillHere:
      return parts_.requests.tell_still_here();
    case proto::NodeDown::MESSAGE_NOT_SET:
      return parts_.requests.on_mark(message.request());
    default:
      base::log().warn("a message of the head of a kind that is not expected ({})",
                       static_cast<int>(message.message_case()));
  }
}

void HeadDispatch::grant(uint64_t request, const proto::Grant& grant) {
  parts_.tasks.spawn("grant", [this, request, grant] {
    proto::NodeUp up;
    up.set_request(request);
    *up.mutable_grant_reply() = parts_.leases.grant(grant, parts_.loop.deadline(kGrantLimit));
    parts_.head.send(std::move(up));
  });
  applied_request_ = std::max(applied_request_, request);
}

void HeadDispatch::node_news(const proto::NodeInfo& info) {
  auto id = rpc::from_proto<NodeId>(info.node());
  int before = parts_.nodes.living();
  bool died = parts_.nodes.learn(info);
  if (died && id != parts_.own.id) {
    base::log().info("node {} is dead: {}", id.hex(), info.death().text());
    parts_.links.node_gone(id, info.death());
    parts_.leases.node_gone(id);
    parts_.objects.node_gone(id, info.death());
    peers_.node_gone(id);
  }
  if (before <= 1 && parts_.nodes.living() > 1) upload_packages(parts_);
}

void HeadDispatch::registered(const proto::Registered& registered, bool first) {
  for (const auto& node : registered.nodes()) node_news(node);
  if (first) return;
  for (const Job* job : parts_.jobs.own_jobs(parts_.own.id)) {
    proto::NodeUp up;
    *up.mutable_job() = job_event(*job);
    if (const LocalProcess* driver = parts_.processes.find(job->driver)) up.mutable_job()->set_pid(driver->pid);
    parts_.head.send(std::move(up));
  }
  for (const auto& info : recent_ends_) {
    proto::NodeUp up;
    *up.mutable_actor() = info;
    parts_.head.send(std::move(up));
  }
  parts_.requests.attached_again();
  parts_.leases.pump();
}

void HeadDispatch::tell_actor(const proto::ActorInfo& info) {
  if (info.state() == proto::DEAD) {
    recent_ends_.push_back(info);
    if (recent_ends_.size() > kEndsKept) recent_ends_.pop_front();
  } else if (info.state() == proto::ALIVE) {
    parts_.requests.learn(info, ActorCache::Source::kHere);
  }
  parts_.requests.report(info);
}

}  // namespace rayo::raylet
