// libllama's side of an engine: weights, context and threads. It does what a Plan says, and decides nothing.
//
// One thread uses it; load() may be called on another before.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "examples/llm_serving/batching/batcher.h"
#include "examples/llm_serving/engine/model_file.h"
#include "examples/llm_serving/engine/offload.h"
#include "examples/llm_serving/engine/result.h"
#include "examples/llm_serving/engine/tokenizer.h"
#include "examples/llm_serving/protocol.h"

struct llama_context;
struct llama_model;
struct ggml_threadpool;

namespace serving {

class Runner {
 public:
  // 0..1; false cancels the load.
  using Progress = std::function<bool(double)>;
  enum class Outcome : uint8_t {
    kDone,
    kNoRoom,  // the cache has no place for the pieces; nothing was computed
    kBroken,  // the cache's content is unknown: clear() it
  };

  // Refuses what check_model_file() refuses, what has no room in `free_bytes`, and what libllama cannot run.
  static Result<std::unique_ptr<Runner>> load(const EngineOptions& options, uint64_t free_bytes,
                                              const Progress& progress);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  const BatchLimits& limits() const { return limits_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ModelFile& file() const { return file_; }
  // What computes, for people: Offload::device.
  const std::string& device() const { return offload_.device; }

  Outcome run(const Plan& plan);
  // After kDone: of the last token of a piece that wanted an output. May be overwritten.
  std::span<float> logits(size_t piece);
  // Of a piece whose every token is an output: of its `token`th.
  std::span<const float> logits(size_t piece, size_t token);
  // After kDone of an embedding plan: the hidden states of a piece's tokens, one after another.
  std::span<const float> hidden(size_t piece);
  int32_t hidden_width() const;
  void clear();

 private:
  struct Free {
    void operator()(llama_model* model) const;
    void operator()(llama_context* context) const;
  };
  class Batch;

  Runner() = default;
  Result<bool> load_weights(const Progress& progress);
  Result<bool> size_cache(const EngineOptions& options, uint64_t free_bytes);
  Result<bool> make_context(const EngineOptions& options);

  ModelFile file_;
  BatchLimits limits_;
  Offload offload_;
  // In the order of their ends, last first.
  std::unique_ptr<llama_model, Free> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<llama_context, Free> context_;
  ggml_threadpool* threads_ = nullptr;
  std::unique_ptr<Batch> batch_;
  std::vector<int32_t> last_rows_;  // of each piece of the last plan: its last token's place in the batch
  std::vector<int32_t> first_rows_;
};

// The processors that this process may run on.
int32_t allowed_cpus();

}  // namespace serving
