// Which tokens of which requests the next decode step computes. Decisions alone: no model, no thread, no clock.
//
//   batcher.admit(work);                       // it waits
//   Plan plan = batcher.plan();                // changes to the cache, then tokens to compute
//   ... libllama does both ...
//   for (piece that wants output) if (batcher.produced(key, sampled)) batcher.finish(key);
//
// A request enters and leaves at a token's border. Each step holds one token of every request that decodes, and of the
// prompts together at most one chunk, oldest request first: so no decoding request ever waits longer than one chunk.
// Chunks of short contexts are so small that their step is computed bit by bit like a step of single tokens (exact_rows).
// A prompt begins with the longest prefix that any sequence in the cache has, and waits for a prompt under way that
// will hold more of it. Where the cache is full, idle sequences go first, the least recently used before others; then
// the youngest request goes back to the head of the queue with all its tokens, to be computed again.
//
// Invariants: (1) cells in use never exceed kv_tokens; (2) the oldest running request always advances, so every
// admitted one ends; (3) waiting ones start in turn over their clients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "examples/llm_serving/batching/cell_ledger.h"
#include "examples/llm_serving/batching/fair_queue.h"
#include "examples/llm_serving/protocol.h"

namespace serving {

struct BatchLimits {
  int32_t context_tokens = 0;  // of one request at most; never more than kv_tokens
  int32_t kv_tokens = 0;
  int32_t parallel = 1;   // requests that run together
  int32_t sequences = 1;  // >= parallel: the others keep what finished requests computed
  int32_t chunk_tokens = 256;
  // A step of more tokens is computed by other kernels, which round otherwise and pay only in a long context: a prompt's
  // first exact_context tokens come in steps of no more. So they, and a request that is computed again from its prompt
  // and its tokens so far, do not depend on who else is in the step.
  int32_t exact_rows = 63;
  int32_t exact_context = 512;
  int32_t embed_tokens = 32;  // of one step whose tokens are outputs each: for embeddings, and prompts with logprobs
  int32_t queue_limit = 256;
  bool share_prefixes = true;  // false where the model's state cannot be cut (recurrent models)
};

struct Work {
  uint64_t key = 0;
  std::string client;
  std::vector<Token> tokens;  // prompt, then output
  int32_t prompt_tokens = 0;
  int32_t max_output = 0;
  bool embedding = false;
  bool every_output = false;  // the logits of each token of the prompt are wanted: no prefix is reused
};

// Of `sequence`: the first `tokens` stay (kCut), or it gets the first `tokens` of `source` (kShare; it was empty).
struct CacheChange {
  enum class Kind : uint8_t { kCut, kShare };
  Kind kind = Kind::kCut;
  int32_t sequence = 0;
  int32_t tokens = 0;
  int32_t source = -1;
};

// Tokens of one request that are computed in one step.
struct Piece {
  uint64_t key = 0;
  int32_t sequence = 0;
  int32_t start = 0;  // the position of the first
  std::vector<Token> tokens;
  bool wants_output = false;  // the last one's logits are wanted
  bool every_output = false;  // each one's are
};

struct Start {
  uint64_t key = 0;
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
};

struct Plan {
  std::vector<CacheChange> changes;  // in this order, before the pieces
  std::vector<Piece> pieces;
  bool embedding = false;      // of every token the hidden state is wanted, and no logits
  std::vector<Start> started;  // requests that left the queue
  std::vector<uint64_t> preempted;
};

class Batcher {
 public:
  explicit Batcher(BatchLimits limits);

  // Not `ready`: it has its place among those that wait, and may start after ready(key).
  Admission admit(Work work, bool ready = true);
  void ready(uint64_t key);
  // False: it is not here (any more).
  bool cancel(uint64_t key);
  Plan plan();
  // The cache had no room for the plan's pieces after all, and holds none of them: idle sequences go, else the youngest
  // request gives way. Where only one runs and nothing is idle, its key: it cannot be computed here.
  std::optional<uint64_t> refused(const Plan& plan);
  // The cache was emptied: all running requests are computed again.
  void restart_all();
  // A token of output. True: it was the last that the request may have.
  bool produced(uint64_t key, Token token);
  void finish(uint64_t key);

  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  int32_t waiting() const { return static_cast<int32_t>(queue_.size() + unready_.size()); }
  // Nothing to compute now.
  bool idle() const { return running_.empty() && queue_.size() == 0; }
  int32_t kv_used() const { return ledger_.used(); }
  uint64_t preemptions() const { return preemptions_; }
  const CellLedger& ledger() const { return ledger_; }

 private:
  struct Running {
    uint64_t key = 0;
    int32_t sequence = 0;
  };
  struct Prefix {
    int32_t sequence = -1;
    int32_t tokens = 0;
  };
  using Order = std::map<uint64_t, Running>;  // by admission: the oldest first

  Admission refusal(const Work& work) const;
  void start_waiting(Plan& plan);
  bool fits(const Work& work, const Prefix& prefix) const;
  bool worth_waiting(const Work& work, const Prefix& prefix) const;
  Prefix longest_prefix(const Work& work) const;
  int32_t take_sequence(const Prefix& prefix, Plan& plan);
  void cut(int32_t sequence, int32_t tokens, Plan& plan);
  bool make_room(int32_t cells, Plan& plan);
  int32_t least_recent_idle(int32_t except) const;
  void preempt_youngest(Plan& plan);
  void add_decoding(Plan& plan);
  void add_chunks(bool embedding, Plan& plan);
  bool is_exact(const Running& running) const;
  void take_back(const Plan& plan);
  void add_piece(const Running& running, int32_t count, Plan& plan);
  int32_t pending(const Running& running) const;
  bool has_pending(bool embedding) const;
  Order::iterator find_running(uint64_t key);
  void release(Order::iterator at);

  const BatchLimits limits_;
  CellLedger ledger_;
  FairQueue queue_;
  std::unordered_set<uint64_t> unready_;
  std::unordered_map<uint64_t, Work> works_;
  Order running_;
  std::vector<uint64_t> last_use_;  // of each sequence
  std::vector<CacheChange> owed_;   // decided between two plans
  uint64_t tick_ = 0;
  uint64_t order_ = 0;
  uint64_t preemptions_ = 0;
  bool embedded_last_ = false;
};

}  // namespace serving
