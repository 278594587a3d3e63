// Which prefixes of prompts a replica probably holds in its KV cache: the hashes of the blocks that were sent to it,
// least recently used ones forgotten first. A guess: the engine decides for itself what it reuses.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "examples/llm_serving/protocol.h"

namespace serving::gateway {

inline constexpr size_t kBlockTokens = 32;

// One hash for each whole block, of everything up to its end.
std::vector<uint64_t> block_hashes(std::span<const Token> tokens);

class PrefixIndex {
 public:
  explicit PrefixIndex(size_t most_blocks) : most_blocks_(most_blocks) {}

  void insert(std::span<const uint64_t> blocks);
  // How many of the first blocks it holds.
  size_t longest(std::span<const uint64_t> blocks) const;
  void clear();
  void resize(size_t most_blocks);
  size_t size() const { return by_hash_.size(); }

 private:
  void shrink();

  size_t most_blocks_;
  std::list<uint64_t> recent_;  // the latest first
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> by_hash_;
};

}  // namespace serving::gateway
