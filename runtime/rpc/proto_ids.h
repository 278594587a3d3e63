// Identifiers and resources between their C++ types and their messages. Values, any thread.
//
//   auto node = rpc::from_proto<NodeId>(message.node());
//   rpc::to_proto(node, message.mutable_node());     or:  *message.mutable_node() = rpc::to_proto(node);
#pragma once

#include <rayo/id.h>

#include "runtime/base/resources.h"
#include "runtime/proto/common.pb.h"

namespace rayo::rpc {

template <class IdType>
IdType from_proto(const proto::Id& id) {
  return IdType{id.high(), id.low()};
}
template <class Tag>
void to_proto(const Id<Tag>& id, proto::Id* out) {
  out->set_high(id.high);
  out->set_low(id.low);
}
template <class Tag>
proto::Id to_proto(const Id<Tag>& id) {
  proto::Id out;
  to_proto(id, &out);
  return out;
}

inline ObjectId from_proto(const proto::ObjectId& id) { return ObjectId{id.home(), id.process(), id.counter()}; }
inline proto::ObjectId to_proto(const ObjectId& id) {
  proto::ObjectId out;
  out.set_home(id.home);
  out.set_process(id.process);
  out.set_counter(id.counter);
  return out;
}

inline base::Resources from_proto(const proto::Resources& resources) {
  base::Resources out;
  for (const auto& [name, units] : resources.units()) out.set(name, base::Amount{units});
  return out;
}
inline proto::Resources to_proto(const base::Resources& resources) {
  proto::Resources out;
  for (const auto& [name, amount] : resources.amounts()) (*out.mutable_units())[name] = amount.units;
  return out;
}

}  // namespace rayo::rpc
