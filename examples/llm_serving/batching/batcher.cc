#include "examples/llm_serving/batching/batcher.h"

#include <algorithm>
#include <utility>

namespace serving {
namespace {

// Cells kept free for each running request when another starts: some room to grow before somebody must give way.
constexpr int32_t kGrowth = 16;
// A prompt waits for one under way only if that spares it as many tokens.
constexpr int32_t kWorthWaiting = 8;

int32_t common_prefix(const std::vector<Token>& a, const std::vector<Token>& b) {
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<int32_t>(differ.first - a.begin());
}

int32_t size_of(const std::vector<Token>& tokens) { return static_cast<int32_t>(tokens.size()); }

}  // namespace

Batcher::Batcher(BatchLimits limits)
    : limits_(limits), ledger_(limits.kv_tokens, limits.sequences), last_use_(limits.sequences) {}

Admission Batcher::refusal(const Work& work) const {
  const int32_t tokens = size_of(work.tokens);
  const int32_t outputs = work.embedding ? 0 : 1;
  if (work.tokens.empty()) return {Admission::Verdict::kInvalid, "the prompt is empty", 0};
  if (!work.embedding && tokens - work.prompt_tokens >= work.max_output)
    return {Admission::Verdict::kInvalid, "no token of output is asked for", 0};
  if (tokens + outputs > limits_.context_tokens) {
    return {Admission::Verdict::kNeverFits,
            "the prompt has " + std::to_string(tokens) + " tokens, and the context holds " +
                std::to_string(limits_.context_tokens) + (outputs > 0 ? " with the answer" : ""),
            0};
  }
  const int32_t places = limits_.queue_limit + limits_.parallel - running();
  if (waiting() >= places)
    return {Admission::Verdict::kFull,
            std::to_string(running()) + " requests run and " + std::to_string(waiting()) + " wait", 0};
  return {};
}

Admission Batcher::admit(Work work, bool ready) {
  Admission admission = refusal(work);
  if (admission.verdict != Admission::Verdict::kTaken) return admission;
  const uint64_t key = work.key;
  if (ready) {
    queue_.push(work.client, key);
  } else {
    unready_.insert(key);
  }
  works_.emplace(key, std::move(work));
  return admission;
}

void Batcher::ready(uint64_t key) {
  if (unready_.erase(key) > 0) queue_.push(works_.at(key).client, key);
}

bool Batcher::cancel(uint64_t key) {
  if (auto at = find_running(key); at != running_.end()) {
    release(at);
  } else if (unready_.erase(key) == 0 && !queue_.remove(key)) {
    return false;
  }
  works_.erase(key);
  return true;
}

void Batcher::finish(uint64_t key) { cancel(key); }

bool Batcher::produced(uint64_t key, Token token) {
  Work& work = works_.at(key);
  work.tokens.push_back(token);
  return size_of(work.tokens) - work.prompt_tokens >= work.max_output || size_of(work.tokens) >= limits_.context_tokens;
}

Batcher::Order::iterator Batcher::find_running(uint64_t key) {
  return std::find_if(running_.begin(), running_.end(), [&](const auto& entry) { return entry.second.key == key; });
}

void Batcher::release(Order::iterator at) {
  const int32_t sequence = at->second.sequence;
  ledger_.unpin(sequence);
  last_use_[sequence] = ++tick_;
  running_.erase(at);
}

int32_t Batcher::pending(const Running& running) const {
  return size_of(works_.at(running.key).tokens) - ledger_.length(running.sequence);
}

bool Batcher::has_pending(bool embedding) const {
  return std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
    return works_.at(entry.second.key).embedding == embedding && pending(entry.second) > 0;
  });
}

Plan Batcher::plan() {
  Plan plan;
  plan.changes.swap(owed_);
  start_waiting(plan);
  // Embeddings have steps of their own, in turn with the others'.
  if (has_pending(true) && (!embedded_last_ || !has_pending(false))) add_chunks(true, plan);
  plan.embedding = !plan.pieces.empty();
  embedded_last_ = plan.embedding;
  if (!plan.embedding) {
    add_decoding(plan);
    add_chunks(false, plan);
  }
  return plan;
}

void Batcher::start_waiting(Plan& plan) {
  while (running() < limits_.parallel) {
    const std::optional<uint64_t> key = queue_.front();
    if (!key) return;
    const Work& work = works_.at(*key);
    const Prefix prefix = longest_prefix(work);
    if (!fits(work, prefix) || worth_waiting(work, prefix)) return;
    const int32_t sequence = take_sequence(prefix, plan);
    ledger_.pin(sequence);
    running_.emplace(++order_, Running{*key, sequence});
    plan.started.push_back({*key, work.prompt_tokens, std::min(prefix.tokens, work.prompt_tokens)});
    queue_.pop();
  }
}

bool Batcher::fits(const Work& work, const Prefix& prefix) const {
  if (running_.empty()) return true;  // alone it fits: admit() has seen to it
  int32_t promised = 0;
  for (const auto& [order, running] : running_) promised += pending(running);
  const int32_t shared = prefix.tokens > 0 ? ledger_.pinned_within(prefix.sequence, prefix.tokens) : 0;
  return ledger_.pinned() + promised + kGrowth * running() + size_of(work.tokens) - shared <= limits_.kv_tokens;
}

bool Batcher::worth_waiting(const Work& work, const Prefix& prefix) const {
  if (!limits_.share_prefixes || work.embedding || work.every_output) return false;
  return std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
    const Work& other = works_.at(entry.second.key);
    if (other.embedding || pending(entry.second) <= 1) return false;
    const int32_t common = std::min(common_prefix(other.tokens, work.tokens), size_of(work.tokens) - 1);
    return common >= prefix.tokens + kWorthWaiting;
  });
}

// At least the last token is computed anew: its logits are wanted.
Batcher::Prefix Batcher::longest_prefix(const Work& work) const {
  Prefix best;
  if (!limits_.share_prefixes || work.embedding || work.every_output) return best;
  for (int32_t sequence = 0; sequence < limits_.sequences; ++sequence) {
    const int32_t common = std::min(common_prefix(ledger_.tokens(sequence), work.tokens), size_of(work.tokens) - 1);
    if (common > best.tokens) best = {sequence, common};
  }
  return best;
}

void Batcher::cut(int32_t sequence, int32_t tokens, Plan& plan) {
  if (ledger_.length(sequence) <= tokens) return;
  ledger_.cut(sequence, tokens);
  plan.changes.push_back({CacheChange::Kind::kCut, sequence, tokens, -1});
}

int32_t Batcher::least_recent_idle(int32_t except) const {
  int32_t best = -1;
  for (int32_t sequence = 0; sequence < limits_.sequences; ++sequence) {
    if (ledger_.is_pinned(sequence) || sequence == except) continue;
    const bool empty = ledger_.length(sequence) == 0;
    if (empty) return sequence;
    if (best < 0 || last_use_[sequence] < last_use_[best]) best = sequence;
  }
  return best;
}

// A sequence that holds the prefix and nothing else.
int32_t Batcher::take_sequence(const Prefix& prefix, Plan& plan) {
  const bool in_place =
      prefix.tokens > 0 && !ledger_.is_pinned(prefix.sequence) && prefix.tokens == ledger_.length(prefix.sequence);
  int32_t sequence = in_place ? prefix.sequence : least_recent_idle(prefix.tokens > 0 ? prefix.sequence : -1);
  if (sequence < 0) sequence = prefix.sequence;  // the only idle one is the one with the prefix
  if (sequence == prefix.sequence) {
    cut(sequence, prefix.tokens, plan);
    return sequence;
  }
  cut(sequence, 0, plan);
  if (prefix.tokens > 0) {
    ledger_.share(prefix.sequence, sequence, prefix.tokens);
    plan.changes.push_back({CacheChange::Kind::kShare, sequence, prefix.tokens, prefix.sequence});
  }
  return sequence;
}

bool Batcher::make_room(int32_t cells, Plan& plan) {
  while (ledger_.free() < cells) {
    int32_t oldest = -1;
    for (int32_t sequence = 0; sequence < limits_.sequences; ++sequence) {
      if (ledger_.is_pinned(sequence) || ledger_.length(sequence) == 0) continue;
      if (oldest < 0 || last_use_[sequence] < last_use_[oldest]) oldest = sequence;
    }
    if (oldest < 0) return false;
    cut(oldest, 0, plan);
  }
  return true;
}

void Batcher::preempt_youngest(Plan& plan) {
  const auto youngest = std::prev(running_.end());
  const Running running = youngest->second;
  release(youngest);
  cut(running.sequence, 0, plan);
  queue_.push_front(running.key);
  plan.preempted.push_back(running.key);
  ++preemptions_;
}

void Batcher::add_piece(const Running& running, int32_t count, Plan& plan) {
  const Work& work = works_.at(running.key);
  const int32_t start = ledger_.length(running.sequence);
  Piece piece{running.key, running.sequence, start, {}};
  piece.tokens.assign(work.tokens.begin() + start, work.tokens.begin() + start + count);
  piece.wants_output = start + count == size_of(work.tokens);
  piece.every_output = work.every_output && start < work.prompt_tokens;
  ledger_.append(running.sequence, piece.tokens);
  plan.pieces.push_back(std::move(piece));
}

void Batcher::add_decoding(Plan& plan) {
  // By order of admission, so that who gives way (the youngest) has no piece yet. Orders, as the map changes meanwhile.
  std::vector<uint64_t> orders;
  for (const auto& [order, running] : running_) {
    if (!works_.at(running.key).embedding && pending(running) == 1) orders.push_back(order);
  }
  for (uint64_t order : orders) {
    while (running_.contains(order) && !make_room(1, plan)) preempt_youngest(plan);
    if (!running_.contains(order)) return;  // it was the youngest itself
    add_piece(running_.at(order), 1, plan);
  }
}

bool Batcher::is_exact(const Running& running) const {
  return ledger_.length(running.sequence) < limits_.exact_context;
}

void Batcher::add_chunks(bool embedding, Plan& plan) {
  std::vector<uint64_t> orders;
  for (const auto& [order, running] : running_) {
    const int32_t least = embedding ? 1 : 2;  // one token is a decoding request's
    if (works_.at(running.key).embedding == embedding && pending(running) >= least) orders.push_back(order);
  }
  if (orders.empty()) return;
  const bool exact = !embedding && is_exact(running_.at(orders.front()));  // the oldest one's kind is the step's
  const auto decoding = static_cast<int32_t>(plan.pieces.size());
  int32_t budget = embedding ? limits_.embed_tokens : limits_.chunk_tokens;
  if (exact) budget = std::min(budget, std::max(1, limits_.exact_rows - decoding));
  int32_t outputs = limits_.embed_tokens;
  for (uint64_t order : orders) {
    if (budget == 0 || !running_.contains(order)) return;
    const Running& running = running_.at(order);
    if (!embedding && is_exact(running) != exact) continue;
    const bool every_output = works_.at(running.key).every_output;
    if (every_output && outputs == 0) continue;
    const int32_t wanted = std::min(every_output ? std::min(budget, outputs) : budget, pending(running));
    if (!make_room(wanted, plan) && ledger_.free() == 0) {
      if (!plan.pieces.empty()) return;  // others advance, and give cells back at their end
      while (running_.contains(order) && !make_room(1, plan)) preempt_youngest(plan);
      if (!running_.contains(order)) return;
    }
    const int32_t count = std::min(wanted, ledger_.free());
    add_piece(running_.at(order), count, plan);
    budget -= count;
    if (every_output) outputs -= count;
  }
}

void Batcher::take_back(const Plan& plan) {
  for (const Piece& piece : plan.pieces) ledger_.cut(piece.sequence, piece.start);
}

std::optional<uint64_t> Batcher::refused(const Plan& plan) {
  take_back(plan);
  Plan relief;
  make_room(ledger_.cells(), relief);  // all idle ones
  std::optional<uint64_t> stuck;
  if (relief.changes.empty()) {
    if (running() > 1) {
      preempt_youngest(relief);
    } else if (running() == 1) {
      stuck = running_.begin()->second.key;
    }
  }
  owed_.insert(owed_.end(), relief.changes.begin(), relief.changes.end());
  return stuck;
}

void Batcher::restart_all() {
  owed_.clear();
  for (int32_t sequence = 0; sequence < limits_.sequences; ++sequence) ledger_.cut(sequence, 0);
}

}  // namespace serving
