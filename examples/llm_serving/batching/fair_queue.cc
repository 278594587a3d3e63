#include "examples/llm_serving/batching/fair_queue.h"

#include <algorithm>

namespace serving {

void FairQueue::push(const std::string& client, uint64_t key) {
  ++size_;
  for (Line& line : lines_) {
    if (line.client == client) {
      line.keys.push_back(key);
      return;
    }
  }
  lines_.push_back({client, {key}});
}

std::optional<uint64_t> FairQueue::front() const {
  if (!first_.empty()) return first_.front();
  if (lines_.empty()) return std::nullopt;
  return lines_.front().keys.front();
}

void FairQueue::pop() {
  --size_;
  if (!first_.empty()) {
    first_.pop_front();
    return;
  }
  Line line = std::move(lines_.front());
  lines_.pop_front();
  line.keys.pop_front();
  if (!line.keys.empty()) lines_.push_back(std::move(line));
}

bool FairQueue::remove(uint64_t key) {
  if (auto at = std::find(first_.begin(), first_.end(), key); at != first_.end()) {
    first_.erase(at);
    --size_;
    return true;
  }
  for (auto line = lines_.begin(); line != lines_.end(); ++line) {
    auto at = std::find(line->keys.begin(), line->keys.end(), key);
    if (at == line->keys.end()) continue;
    line->keys.erase(at);
    if (line->keys.empty()) lines_.erase(line);
    --size_;
    return true;
  }
  return false;
}

}  // namespace serving
