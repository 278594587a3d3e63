#include "runtime/worker/actor_clients.h"

namespace rayo::worker {

ActorClient& ActorClients::create(const ActorId& actor, std::string_view class_name) {
  auto& client = clients_[actor];
  if (!client) client = std::make_unique<ActorClient>(actor, std::string(class_name), table_, wire_);
  return *(last_ = client.get());
}

ActorClient* ActorClients::find(const ActorId& actor) {
  auto found = clients_.find(actor);
  return found == clients_.end() ? nullptr : found->second.get();
}

ActorClient& ActorClients::look_up(const ActorId& actor) {
  if (ActorClient* known = find(actor)) return *(last_ = known);
  ActorClient& client = create(actor, "actor");
  wire_.watch_actor(actor);
  return client;
}

void ActorClients::on_info(const proto::ActorInfo& info) {
  if (ActorClient* client = find(ActorId{info.actor().high(), info.actor().low()})) client->on_info(info);
}

std::unique_ptr<OutgoingCall> ActorClients::withdraw(const ObjectSlot& result) {
  for (auto& [id, client] : clients_)
    if (auto call = client->withdraw(result)) return call;
  return nullptr;
}

bool ActorClients::forget(const ActorId& actor) {
  auto found = clients_.find(actor);
  if (found == clients_.end() || !found->second->idle()) return false;
  if (last_ == found->second.get()) last_ = nullptr;
  const auto gone = clients_.extract(found);  // its end may ask for others
  return true;
}

void ActorClients::on_failure(const ErrorRecord& why) {
  for (auto& [id, client] : clients_) client->on_failure(why);
}

bool ActorClients::waiting() const {
  for (const auto& [id, client] : clients_)
    if (!client->idle()) return true;
  return false;
}

}  // namespace rayo::worker
