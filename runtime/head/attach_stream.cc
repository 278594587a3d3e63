#include "runtime/head/attach_stream.h"

#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/rpc/join.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::head {

using base::cat;
using Stream = rpc::MessageStream<proto::NodeUp, proto::NodeDown>;

namespace {

constexpr base::Duration kRegisterWithin = 5s;

base::Status refuse(Stream& stream, proto::Failure why) {
  base::log().warn("a node is refused: {}", why.text());
  proto::NodeDown down;
  *down.mutable_registered()->mutable_failure() = std::move(why);
  return stream.write(down, base::deadline_after(base::current_loop()->now(), kRegisterWithin));
}

proto::Failure check(const Core& core, const proto::Register& registering, const rpc::Peer& peer) {
  auto id = rpc::from_proto<NodeId>(registering.node().node());
  if (auto own = peer.may_act_for(id); !own.ok()) return failure(proto::INVALID, own);
  if (!rpc::same_minor_version(registering.node().version(), base::kVersion)) {
    return failure(proto::INVALID,
                   cat("this node runs Rayo ", registering.node().version(), ", the head ", base::kVersion),
                   "install the head's version there");
  }
  auto cluster = rpc::from_proto<ClusterId>(registering.cluster());
  if (cluster && cluster != core.foundation().id()) {
    return failure(
        proto::INVALID,
        cat("this node belongs to the cluster ", cluster.hex(), ", the head to ", core.foundation().id().hex()),
        "stop that node, and start it again with this head's address");
  }
  return {};
}

// What the node missed while it had no stream: the jobs, and the actors that it watches.
void catch_up(Core& core, NodeId node, NodeStreams::Outbox& outbox) {
  for (const auto& [id, job] : core.state.jobs.all()) {
    proto::NodeDown down;
    if (job.state() == "ended") {  // many, and their command lines may be long
      *down.mutable_job()->mutable_job() = job.job();
      down.mutable_job()->set_state(job.state());
    } else {
      *down.mutable_job() = job;
    }
    NodeStreams::push(outbox, down);
  }
  for (const auto& [id, actor] : core.state.actors.all()) {
    if (!actor.watchers.contains(node)) continue;
    proto::NodeDown down;
    *down.mutable_actor() = actor.info;
    NodeStreams::push(outbox, down);
  }
}

void write_down(Stream& stream, NodeStreams::Outbox& outbox) {
  while (auto down = outbox.queue.pop()) {
    outbox.bytes -= std::min(outbox.bytes, down->ByteSizeLong());
    if (!stream.write(*down).ok()) break;
  }
}

void read_up(Core& core, NodeId node, Stream& stream, const std::shared_ptr<NodeStreams::Outbox>& outbox) {
  while (core.streams.current(node, outbox)) {
    auto up = stream.read();
    if (!up.ok() || !*up) return;
    if (!core.streams.current(node, outbox)) return;
    Outcome out;
    core.nodes.message(node, **up, out);
    core.line.submit(std::move(out));
    if ((*up)->has_leave()) return;
  }
}

}  // namespace

base::Status serve_attach(Core& core, Stream& stream, rpc::Call& call) {
  auto first = stream.read(base::deadline_after(base::current_loop()->now(), kRegisterWithin));
  if (!first.ok()) return first.status();
  if (!*first || !(*first)->has_register_())
    return refuse(stream, failure(proto::INVALID, "the first message is no Register"));
  const auto& registering = (*first)->register_();
  if (auto bad = check(core, registering, call.peer()); bad.kind() != proto::FAILURE_UNSPECIFIED)
    return refuse(stream, bad);
  auto node = rpc::from_proto<NodeId>(registering.node().node());

  Outcome out;
  auto registered = core.nodes.attach(registering, out);
  if (registered.has_failure()) return refuse(stream, registered.failure());
  core.placer.node_died(node);  // grants whose answers were lost with an earlier stream
  core.fill(registered);
  auto outbox = core.streams.open(node);
  proto::NodeDown down;
  *down.mutable_registered() = std::move(registered);
  NodeStreams::push(*outbox, down);
  catch_up(core, node, *outbox);
  core.line.submit(std::move(out));
  base::log().info("node {} at {} attached", node.hex(), registering.node().address());
  {
    base::TaskGroup writer;
    writer.spawn("attach-writer", [&] {
      write_down(stream, *outbox);
      core.streams.close(node, outbox);
    });
    read_up(core, node, stream, outbox);
    if (!core.streams.replaced(node, outbox)) core.nodes.stream_ended(node);
    core.streams.close(node, outbox);
    // What is queued still goes out (a LeaveNow, a last EndActor) as long as the other side reads.
    writer.join(base::deadline_after(base::current_loop()->now(), 1s));
  }
  base::log().info("the stream of node {} has ended", node.hex());
  return {};
}

}  // namespace rayo::head
