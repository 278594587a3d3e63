#include "runtime/raylet/head_outbox.h"

#include <utility>

namespace rayo::raylet {

bool HeadOutbox::push(proto::NodeUp message) {
  bytes_ += message.ByteSizeLong();
  messages_.push_back(std::move(message));
  news_.notify_one();
  trim();
  return bytes_ <= kMostUnread;
}

std::optional<proto::NodeUp> HeadOutbox::pop() {
  while (messages_.empty())
    if (!news_.wait(base::kForever)) return std::nullopt;
  proto::NodeUp first = std::move(messages_.front());
  messages_.pop_front();
  bytes_ -= first.ByteSizeLong();
  return first;
}

void HeadOutbox::put_back(proto::NodeUp message) {
  bytes_ += message.ByteSizeLong();
  messages_.push_front(std::move(message));
}

void HeadOutbox::set_away(bool away) {
  away_ = away;
  trim();
}

void HeadOutbox::trim() {
  while (away_ && bytes_ > kKeptAway) {
    bytes_ -= messages_.front().ByteSizeLong();
    messages_.pop_front();
  }
}

}  // namespace rayo::raylet
