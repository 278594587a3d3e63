#include "runtime/head/records.h"

#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"
#include "scheduler/placement.h"

namespace rayo::head {

using base::cat;

proto::DeathRecord death_record(proto::DeathKind kind, NodeId node, std::string_view text, int64_t now_us) {
  proto::DeathRecord out;
  out.set_at_unix_us(now_us);
  if (node) rpc::to_proto(node, out.mutable_node());
  out.set_kind(kind);
  out.set_text(std::string(text));
  return out;
}

proto::Failure failure(proto::FailureKind kind, std::string_view text, std::string_view next_step) {
  proto::Failure out;
  out.set_kind(kind);
  out.set_text(std::string(text));
  out.set_next_step(std::string(next_step));
  return out;
}

proto::Failure failure(proto::FailureKind kind, const base::Status& error) {
  return failure(kind, base::message(error), base::next_step(error));
}

proto::NodeInfo dead_node(proto::NodeInfo info, const proto::DeathRecord& why) {
  info.set_state(scheduler::name_of(scheduler::NodeState::kDead));
  *info.mutable_death() = why;
  info.clear_free();
  info.clear_workers();
  info.clear_drivers();
  info.clear_object_store_used_bytes();
  for (auto& device : *info.mutable_devices()) device.clear_free_units();
  return info;
}

std::string short_hex(const proto::Id& id) { return rpc::from_proto<ActorId>(id).hex().substr(0, 8); }

std::string actor_text(const proto::ActorSpec& spec) {
  std::string name = spec.name().empty() ? "" : cat(" '", spec.name(), "'");
  return cat("actor ", spec.class_name(), name, " (", short_hex(spec.actor()), ")");
}

}  // namespace rayo::head
