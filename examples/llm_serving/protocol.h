// What gateway and engines say to each other: plain aggregates, which Rayo carries as they are.
//
// One stream of Steps goes from an engine to each gateway, for all of that gateway's requests: a decode step costs one
// message, whatever the number of requests. A request is known by the number that its gateway gave it.
//
// Replay: a request whose engine died goes to another one with the tokens that it has produced so far in `replayed`.
// The engine rebuilds everything from prompt + replayed (KV, penalties, grammar, stop strings, random numbers, which
// depend on seed and position alone) and goes on: the first event has position == replayed.size().
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace serving {

using Token = int32_t;  // an index into the model's vocabulary

struct LogitBias {
  Token token = 0;
  float bias = 0;  // added to the logit; -100 and below bans, as OpenAI's does
};

// How the next token is chosen. In this order: bias, penalties, grammar, temperature, top_k, typical, top_p, min_p,
// draw.
struct Sampling {
  float temperature = 1;  // 0: the best token
  int32_t top_k = 0;      // 0: all
  float top_p = 1;
  float min_p = 0;
  float typical_p = 1;
  float repetition_penalty = 1;  // over prompt and output, as vLLM's
  float presence_penalty = 0;    // over the output alone, as OpenAI's
  float frequency_penalty = 0;
  uint64_t seed = 0;
  std::vector<LogitBias> logit_bias;
  std::string grammar;  // GBNF; empty: none
  // With a grammar: the end of the prompt that it begins with, as ChatPrompt names it; and what the output must hold
  // before it binds (regular expressions, or tokens; both empty: it binds from the first token on).
  std::vector<Token> grammar_prefix;
  std::vector<std::string> grammar_triggers;
  std::vector<Token> grammar_trigger_tokens;
  int32_t logprobs = -1;  // alternatives told with each token; -1: none are told, 0: only the token's own
  bool ignore_eos = false;
};

struct Request {
  uint64_t id = 0;     // of its gateway
  std::string client;  // API key or address: the queue takes turns over these
  std::vector<Token> prompt;
  std::vector<Token> replayed;
  int32_t max_tokens = 0;         // of output, the replayed ones included
  std::vector<std::string> stop;  // never part of the text
  std::vector<Token> shown;       // special tokens whose text is part of the answer, as marks of tool calls are
  Sampling sampling;
  bool embedding = false;        // the pooled embedding of the prompt is wanted, and no token
  bool prompt_logprobs = false;  // with sampling.logprobs: the prompt's tokens have theirs told, too
};

enum class Finish : uint8_t {
  kNone,       // it goes on
  kStop,       // end of text, or a stop string
  kLength,     // max_tokens or the context's end
  kCancelled,  // its client left
  kError,      // see Event::error
};

struct TokenLogprob {
  Token token = 0;
  float logprob = 0;
};

// How likely a token was that stood there.
struct Likelihood {
  float logprob = 0;
  std::vector<TokenLogprob> top;
};

// One token of one request, or its end.
struct Event {
  uint64_t request = 0;
  int32_t position = 0;  // of the token in the output, from 0
  Token token = -1;      // -1: none (an end without a token)
  // What may be shown now: whole characters, nothing that could be the beginning of a stop string. At the end the rest.
  std::string text;
  float logprob = 0;  // of the token, before temperature and truncation
  std::vector<TokenLogprob> top;
  Finish finish = Finish::kNone;
  int32_t cached_tokens = 0;  // of the prompt: found in the KV cache (told with position 0)
  double queued_s = 0;        // before its first step, in this engine
  std::vector<Likelihood>
      prompt;         // of prompt_logprobs: of the prompt's tokens from the second on (told with position 0)
  std::string error;  // with kError: a sentence for the client
  std::vector<float> embedding;
};

// What one decode step brought to one gateway's requests.
struct Step {
  std::vector<Event> events;
};

// Whether a request was taken. Not taken: nothing of it will come.
struct Admission {
  enum class Verdict : uint8_t { kTaken, kFull, kNeverFits, kInvalid };
  Verdict verdict = Verdict::kTaken;
  std::string reason;        // of a refusal, with figures
  double retry_after_s = 0;  // with kFull
};

// What a router and `rayo serve status` want to know.
struct EngineStatus {
  std::string state;  // loading, ready, stopping
  std::string model;
  std::string node = {};       // in hex
  std::string cpu_variant;     // x86-64-v2, x86-64-v3, x86-64-v4
  std::string device;          // "CPU only: ..." and why, or the layers offloaded
  double load_progress = 0;    // 0..1
  int32_t context_tokens = 0;  // of one request at most
  int32_t kv_tokens = 0;       // the cache's size
  int32_t kv_used_tokens = 0;
  int32_t running = 0;
  int32_t waiting = 0;
  double tokens_per_second = 0;  // over the last 10 s
  double step_under_way_s = 0;   // for how long it has been computing; 0 between steps
  double usual_step_s = 0;       // of late
  uint64_t prompt_tokens = 0;    // since its start
  uint64_t output_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t preemptions = 0;
};

struct EngineOptions {
  std::string model_path;      // GGUF; with -00001-of-N parts, the first
  uint64_t model_bytes = 0;    // of all of its parts: an actor takes no other file of that name
  int32_t max_context = 0;     // tokens of one request; 0: what the model was trained for
  int32_t parallel = 8;        // requests that decode together
  int32_t kv_tokens = 0;       // 0: max_context, or 1,024 for each of `parallel`, within the memory that is free
  int32_t threads = 0;         // 0: the node's free CPUs
  int32_t chunk_tokens = 256;  // of a prompt between two steps of the others
  int32_t queue_limit = 256;   // requests that wait; beyond: kFull
  int32_t step_seconds = 30;   // one decoding step that takes longer ends the engine's process
  int32_t orphan_seconds = 0;  // so does so long a time without a question for its status; 0: it does not
  uint64_t gpu_memory = 0;     // bytes that it leases; 0: what is free on the GPUs that it sees
  std::string cpu_only = {};   // why it has no GPU to compute on; empty: it may have one
};

// Tokens that an engine's cache has by default.
constexpr int32_t default_kv_tokens(int32_t context, int32_t parallel) {
  constexpr int32_t kEach = 1024;  // for each of the requests that run together
  return std::max(context, kEach * std::max(1, parallel));
}

}  // namespace serving
