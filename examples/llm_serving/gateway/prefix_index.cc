#include "examples/llm_serving/gateway/prefix_index.h"

namespace serving::gateway {
namespace {

// The finaliser of splitmix64.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<uint64_t> block_hashes(std::span<const Token> tokens) {
  std::vector<uint64_t> hashes;
  hashes.reserve(tokens.size() / kBlockTokens);
  uint64_t hash = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    hash = mix(hash + 0x9E3779B97F4A7C15u + static_cast<uint32_t>(tokens[i]));
    if ((i + 1) % kBlockTokens == 0) hashes.push_back(hash);
  }
  return hashes;
}

void PrefixIndex::insert(std::span<const uint64_t> blocks) {
  // From the end, so that beginnings are the most recent: a prefix without its beginning is worth nothing.
  for (size_t i = blocks.size(); i-- > 0;) {
    const auto found = by_hash_.find(blocks[i]);
    if (found != by_hash_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
    } else {
      recent_.push_front(blocks[i]);
      by_hash_[blocks[i]] = recent_.begin();
    }
  }
  shrink();
}

size_t PrefixIndex::longest(std::span<const uint64_t> blocks) const {
  size_t held = 0;
  while (held < blocks.size() && by_hash_.contains(blocks[held])) ++held;
  return held;
}

void PrefixIndex::clear() {
  recent_.clear();
  by_hash_.clear();
}

void PrefixIndex::resize(size_t most_blocks) {
  most_blocks_ = most_blocks;
  shrink();
}

void PrefixIndex::shrink() {
  while (by_hash_.size() > most_blocks_) {
    by_hash_.erase(recent_.back());
    recent_.pop_back();
  }
}

}  // namespace serving::gateway
