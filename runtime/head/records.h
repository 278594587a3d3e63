// Small makers of the messages that several parts of the head hand out.
#pragma once

#include <string>
#include <string_view>

#include <rayo/id.h>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/proto/common.pb.h"

namespace rayo::head {

inline int64_t unix_us(base::WallTime wall) {
  return std::chrono::duration_cast<std::chrono::microseconds>(wall.time_since_epoch()).count();
}

proto::DeathRecord death_record(proto::DeathKind kind, NodeId node, std::string_view text, int64_t now_us);
proto::Failure failure(proto::FailureKind kind, std::string_view text, std::string_view next_step = {});
// An error of the world as what its caller gets.
proto::Failure failure(proto::FailureKind kind, const base::Status& error);
// A node after its end: nothing is free there, nobody runs there.
proto::NodeInfo dead_node(proto::NodeInfo info, const proto::DeathRecord& why);
// "actor Counter 'hits' (4f2a...)"
std::string actor_text(const proto::ActorSpec& spec);
// The first 8 digits: what people read and type.
std::string short_hex(const proto::Id& id);

}  // namespace rayo::head
