#include "runtime/head/node_streams.h"

#include "runtime/head/timeouts.h"

namespace rayo::head {

std::shared_ptr<NodeStreams::Outbox> NodeStreams::open(NodeId node) {
  auto& slot = streams_[node];
  if (slot) slot->queue.close();
  slot = std::make_shared<Outbox>();
  return slot;
}

void NodeStreams::close(NodeId node, const std::shared_ptr<Outbox>& outbox) {
  outbox->queue.close();
  if (current(node, outbox)) streams_.erase(node);
}

bool NodeStreams::current(NodeId node, const std::shared_ptr<Outbox>& outbox) const {
  auto found = streams_.find(node);
  return found != streams_.end() && found->second == outbox;
}

bool NodeStreams::replaced(NodeId node, const std::shared_ptr<Outbox>& outbox) const {
  return streams_.contains(node) && !current(node, outbox);
}

void NodeStreams::push(Outbox& outbox, const proto::NodeDown& message) {
  outbox.bytes += message.ByteSizeLong();
  if (outbox.bytes > kOutboxBytes) {
    outbox.queue.close();
  } else {
    outbox.queue.push(message);
  }
}

void NodeStreams::send(const Send& send) {
  if (!send.to) {
    for (auto& [node, outbox] : streams_) push(*outbox, send.message);
  } else if (auto found = streams_.find(send.to); found != streams_.end()) {
    push(*found->second, send.message);
  }
}

}  // namespace rayo::head
