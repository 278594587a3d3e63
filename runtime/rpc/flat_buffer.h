// A queue of bytes in one flat piece of memory: appended at its end, consumed at its front, moved together
// only when that is cheap. One thread at a time.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

namespace rayo::rpc {

using Bytes = std::span<const std::byte>;

class FlatBuffer {
 public:
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  Bytes bytes() const { return {memory_.get() + begin_, size()}; }

  // Room for `count` bytes behind the content; commit() says how many were written there.
  std::byte* prepare(size_t count) {
    if (capacity_ - end_ < count) make_room(count);
    return memory_.get() + end_;
  }
  void commit(size_t count) { end_ += count; }
  void append(const void* from, size_t count) {
    if (count == 0) return;
    std::memcpy(prepare(count), from, count);
    end_ += count;
  }
  void consume(size_t count) {
    begin_ += count;
    if (begin_ == end_) clear();
  }
  void clear() {
    begin_ = end_ = 0;
    if (capacity_ <= kKept) return;
    memory_.reset();
    capacity_ = 0;
  }
  // How much memory it holds.
  size_t capacity() const { return capacity_; }

  static constexpr size_t kKept = 4u << 20;  // larger ones are given back when they run empty

 private:
  static constexpr size_t kSmallest = 4096;

  void make_room(size_t count) {
    size_t used = size();
    if (capacity_ >= used + count && begin_ >= capacity_ / 2) {  // moved at most once per half of its capacity
      std::memmove(memory_.get(), memory_.get() + begin_, used);
    } else {
      size_t wanted = capacity_ < kSmallest ? kSmallest : capacity_ * 2;
      while (wanted < used + count) wanted *= 2;
      std::unique_ptr<std::byte[]> larger(new std::byte[wanted]);
      if (used != 0) std::memcpy(larger.get(), memory_.get() + begin_, used);
      memory_ = std::move(larger);
      capacity_ = wanted;
    }
    begin_ = 0;
    end_ = used;
  }

  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace rayo::rpc
