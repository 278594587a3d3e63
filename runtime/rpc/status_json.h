// The JSON documents that programs read, made from the messages: `rayo status --json` and the head's /api/status. Pure
// functions, any thread. Sizes are bytes, times seconds since the epoch, durations seconds.
//
//   std::puts(rpc::status_json(reply).c_str());
#pragma once

#include <boost/json/fwd.hpp>
#include <string>

#include "runtime/proto/head.pb.h"

namespace rayo::rpc {

constexpr int kStatusSchema = 1;

// One document on one line. Names and texts of users may be no UTF-8: see base::as_utf8.
std::string status_json(const proto::StatusReply& status);

// The parts that other documents hold too (`list ... --json`, records of deaths).
boost::json::value node_json(const proto::NodeInfo& node);
boost::json::value death_json(const proto::DeathRecord& death);      // null where the record is empty
boost::json::value amounts_json(const proto::Resources& resources);  // {"cpu": 0.5, "memory_bytes": 1073741824}
boost::json::value reasons_json(const google::protobuf::RepeatedPtrField<proto::Reason>& reasons);

// "exit", "out_of_memory", "node_lost" ...
std::string death_kind_text(proto::DeathKind kind);
// "pending", "alive" ...
std::string actor_state_text(proto::ActorState state);

}  // namespace rayo::rpc
