// The actors that this process knows, each with its client, by id. A client is made when a handle first appears and
// goes when no handle is left and nothing is under way. Under the baton.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/worker/actor_client.h"

namespace rayo::worker {

class ActorClients {
 public:
  ActorClients(ObjectTable& table, CallWire& wire) : table_(table), wire_(wire) {}

  // The client of an actor that this process is about to create: the control store is asked once it knows of it.
  ActorClient& create(const ActorId& actor, std::string_view class_name);
  // Of any actor; asks for its address where it was unknown.
  ActorClient& of(const ActorId& actor) { return last_ && last_->id() == actor ? *last_ : look_up(actor); }
  ActorClient* find(const ActorId& actor);
  void on_info(const proto::ActorInfo& info);
  // See ActorClient::withdraw.
  std::unique_ptr<OutgoingCall> withdraw(const ObjectSlot& result);
  // No handle is left: forgets it, unless something is under way. True where it was forgotten.
  bool forget(const ActorId& actor);
  // Nobody can tell about any of them any more.
  void on_failure(const ErrorRecord& why);
  bool waiting() const;

 private:
  ActorClient& look_up(const ActorId& actor);

  ObjectTable& table_;
  CallWire& wire_;
  std::unordered_map<ActorId, std::unique_ptr<ActorClient>> clients_;
  ActorClient* last_ = nullptr;
};

}  // namespace rayo::worker
