// A queue that takes turns over clients: one with a thousand requests waits behind none of another's but its own.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace serving {

class FairQueue {
 public:
  void push(const std::string& client, uint64_t key);
  // The next one, which stays.
  std::optional<uint64_t> front() const;
  void pop();
  // Before all others, whoever's it is.
  void push_front(uint64_t key) {
    first_.push_front(key);
    ++size_;
  }
  bool remove(uint64_t key);
  size_t size() const { return size_; }

 private:
  struct Line {
    std::string client;
    std::deque<uint64_t> keys;
  };
  std::deque<uint64_t> first_;
  std::deque<Line> lines_;  // those with requests, in the order of their turns
  size_t size_ = 0;
};

}  // namespace serving
