#include "runtime/worker/wait_chain.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {
// A chain longer than this is passed on by nobody: a hostile peer could make it grow for ever.
constexpr int kLongestChain = 1000;
}  // namespace

std::string WaitChain::me() const {
  const CallHost::Hosted& hosted = host_.hosted();
  const char* function = host_.running() && host_.running()->function ? host_.running()->function->name : "?";
  if (!hosted.actor) return base::cat("task ", function);
  return base::cat(function, " of actor ", hosted.class_name, " (", hosted.actor.hex().substr(0, 8), ")");
}

void WaitChain::probe() { pass_on({}); }

void WaitChain::pass_on(proto::CallChain chain) {
  if (!waiting_ || !waiting_->owner || chain.actors_size() >= kLongestChain) return;
  chain.add_actors(process_);
  chain.add_names(me());
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kProbe;
  header.call_id = waiting_->id.counter;
  const std::string body = chain.SerializeAsString();
  const Bytes part = std::as_bytes(std::span(body));
  wire_.send(waiting_->owner->link(), header, {&part, 1});
}

void WaitChain::on_probe(PeerId peer, uint64_t call_id, ByteView body) {
  const CallHost::Running* running = host_.running();
  if (!running || !waiting_) return;  // whatever is asked for will run
  // A task behind the one that waits goes elsewhere (task_window.h); an actor's calls wait for it.
  const bool asked_for = (running->peer == peer && running->call_id == call_id) ||
                         (!running->task && host_.mailbox().holds(peer, call_id));
  proto::CallChain chain;
  if (!asked_for || !chain.ParseFromArray(body.data(), static_cast<int>(body.size())) || chain.actors_size() == 0)
    return;
  if (chain.actors(0) == process_) return found(chain);
  // A cycle that its first member is not part of: its own members find it.
  if (std::find(chain.actors().begin(), chain.actors().end(), process_) != chain.actors().end()) return;
  pass_on(std::move(chain));
}

void WaitChain::found(const proto::CallChain& chain) {
  if (*std::max_element(chain.actors().begin(), chain.actors().end()) != process_) return;
  std::string text = "this call waits for itself: ";
  for (const std::string& name : chain.names()) base::append(text, base::cat(name, " waits for "));
  base::append(text, chain.names(0));
  ObjectSlot& slot = *waiting_;
  CallOwner* owner = slot.owner;
  table_.fail(slot, error_record(ErrorKind::kDeadlock, text,
                                 "do not wait for a call inside a method that the called actor itself waits for"));
  if (owner) owner->given_up(slot.id.counter);
}

}  // namespace rayo::worker
