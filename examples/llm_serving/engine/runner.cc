#include "examples/llm_serving/engine/runner.h"

#include <algorithm>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <llama.h>
#include <sched.h>

#include "examples/llm_serving/engine/cpu_variant.h"
#include "examples/llm_serving/engine/llama_log.h"

namespace serving {
namespace {

// libllama rounds the cache up to this; so it is a multiple from the start.
constexpr int32_t kCacheStep = 256;
constexpr int32_t kMostSequences = 256;  // libllama's LLAMA_MAX_SEQ
constexpr int32_t kEmbedTokens = 32;     // each has a row of logits: 32 x 152,000 x 4 bytes = 19 MiB

template <class F>
F backend_function(const char* name) {
  return reinterpret_cast<F>(ggml_backend_reg_get_proc_address(choose_cpu_variant().backend, name));
}

}  // namespace

int32_t allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

class Runner::Batch {
 public:
  explicit Batch(int32_t tokens) : batch_(llama_batch_init(tokens, 0, 1)) {}
  ~Batch() { llama_batch_free(batch_); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void clear() { batch_.n_tokens = 0; }
  int32_t add(Token token, int32_t position, int32_t sequence, bool output) {
    const int32_t row = batch_.n_tokens++;
    batch_.token[row] = token;
    batch_.pos[row] = position;
    batch_.n_seq_id[row] = 1;
    batch_.seq_id[row][0] = sequence;
    batch_.logits[row] = output;
    return row;
  }
  const llama_batch& get() const { return batch_; }

 private:
  llama_batch batch_;
};

void Runner::Free::operator()(llama_model* model) const { llama_model_free(model); }
void Runner::Free::operator()(llama_context* context) const { llama_free(context); }

Runner::~Runner() {
  if (context_) llama_detach_threadpool(context_.get());
  context_.reset();
  if (threads_ != nullptr) backend_function<void (*)(ggml_threadpool*)>("ggml_threadpool_free")(threads_);
}

Result<std::unique_ptr<Runner>> Runner::load(const EngineOptions& options, uint64_t free_bytes,
                                             const Progress& progress) {
  capture_llama_log();
  if (choose_cpu_variant().backend == nullptr)
    return Problem{"no build of the compute library runs on this processor: " + choose_cpu_variant().reason,
                   "use a machine with at least x86-64-v2"};
  Result<ModelFile> file = check_model_file(options.model_path);
  if (!file) return file.problem();
  std::unique_ptr<Runner> runner(new Runner);
  runner->file_ = std::move(*file);
  if (const Result<bool> sized = runner->size_cache(options, free_bytes); !sized) return sized.problem();
  runner->offload_ = options.cpu_only.empty()
                         ? plan_offload(runner->file_, runner->limits_.kv_tokens, options.gpu_memory)
                         : Offload{0, "CPU only: " + options.cpu_only};
  if (const Result<bool> loaded = runner->load_weights(progress); !loaded) return loaded.problem();
  if (const Result<bool> made = runner->make_context(options); !made) return made.problem();
  return runner;
}

// By default one whole context or 1,024 tokens for each request, whichever is more, in no more than half of what the
// weights leave free: all of it is cleared while the model loads.
Result<bool> Runner::size_cache(const EngineOptions& options, uint64_t free_bytes) {
  const int32_t trained = file_.trained_context > 0 ? file_.trained_context : 4096;
  int32_t context = options.max_context > 0 ? options.max_context : trained;
  int64_t tokens = options.kv_tokens;
  if (tokens <= 0) tokens = default_kv_tokens(context, options.parallel);
  if (const Result<uint64_t> room = check_memory(file_, 0, free_bytes); !room) return room.problem();
  if (options.kv_tokens == 0 && file_.kv_bytes_per_token > 0) {
    const uint64_t half = (free_bytes - file_.size_bytes) / 2;
    tokens = std::min<int64_t>(tokens, static_cast<int64_t>(half / file_.kv_bytes_per_token));
    if (options.max_context > 0) tokens = std::max<int64_t>(tokens, context);  // asked for: it must fit, or be refused
  }
  tokens = std::max<int64_t>((tokens + (options.kv_tokens > 0 ? kCacheStep - 1 : 0)) / kCacheStep, 1) * kCacheStep;
  if (options.max_context > 0) tokens = std::max<int64_t>(tokens, (context + kCacheStep - 1) / kCacheStep * kCacheStep);
  limits_.kv_tokens = static_cast<int32_t>(std::min<int64_t>(tokens, INT32_MAX / 2));
  limits_.context_tokens = std::min(context, limits_.kv_tokens);
  limits_.parallel = std::clamp(options.parallel, 1, kMostSequences);
  limits_.sequences = std::min(kMostSequences, 2 * limits_.parallel);
  limits_.chunk_tokens = std::max(1, options.chunk_tokens);
  limits_.queue_limit = std::max(0, options.queue_limit);
  limits_.embed_tokens = kEmbedTokens;
  const Result<uint64_t> room = check_memory(file_, limits_.kv_tokens, free_bytes);
  if (!room) return room.problem();
  return true;
}

Result<bool> Runner::load_weights(const Progress& progress) {
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = offload_.layers;
  params.progress_callback_user_data = const_cast<Progress*>(&progress);
  params.progress_callback = [](float part, void* data) {
    const auto& told = *static_cast<const Progress*>(data);
    return !told || told(part);
  };
  const LlamaErrors errors;
  model_.reset(llama_model_load_from_file(file_.paths[0].c_str(), params));
  if (!model_)
    return Problem{file_.paths[0] + " cannot be loaded: " + errors.cause(), "use another GGUF file, or a newer Rayo"};
  if (!llama_model_has_decoder(model_.get()) || llama_model_has_encoder(model_.get()))
    return Problem{file_.name + " (" + file_.architecture + ") is no text generator: it has an encoder",
                   "use a decoder-only model"};
  tokenizer_ = std::make_unique<Tokenizer>(model_.get());
  return true;
}

Result<bool> Runner::make_context(const EngineOptions& options) {
  // A state that cannot be cut at a token holds no prefix for others.
  limits_.share_prefixes = !llama_model_is_recurrent(model_.get()) && !llama_model_is_hybrid(model_.get());
  if (!limits_.share_prefixes) limits_.sequences = limits_.parallel;
  const int32_t threads = options.threads > 0 ? options.threads : allowed_cpus();
  const int32_t batch = limits_.chunk_tokens + limits_.parallel;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(limits_.kv_tokens);
  params.n_batch = params.n_ubatch = static_cast<uint32_t>(std::max(batch, kEmbedTokens));
  params.n_seq_max = static_cast<uint32_t>(limits_.sequences);
  // Each request's next token, and one step's share of a prompt with logprobs; never less than n_seq_max.
  params.n_outputs_max = static_cast<uint32_t>(std::max(limits_.sequences, limits_.parallel + kEmbedTokens));
  params.n_threads = params.n_threads_batch = threads;
  params.pooling_type = LLAMA_POOLING_TYPE_NONE;
  params.kv_unified = true;
  params.swa_full = true;  // else a prefix older than the window could not be shared
  params.no_perf = true;
  const LlamaErrors errors;
  context_.reset(llama_init_from_model(model_.get(), params));
  if (!context_)
    return Problem{"no context of " + std::to_string(limits_.kv_tokens) + " tokens can be made for " + file_.name +
                       ": " + errors.cause(),
                   "use a smaller --max-context or --parallel"};
  ggml_threadpool_params pool = ggml_threadpool_params_default(threads);
  threads_ = backend_function<ggml_threadpool* (*)(ggml_threadpool_params*)>("ggml_threadpool_new")(&pool);
  if (threads_ == nullptr)
    return Problem{"no " + std::to_string(threads) + " threads can be started", "use a smaller --threads"};
  llama_attach_threadpool(context_.get(), threads_, threads_);
  batch_ = std::make_unique<Batch>(static_cast<int32_t>(params.n_batch));
  return true;
}

Runner::Outcome Runner::run(const Plan& plan) {
  llama_memory_t memory = llama_get_memory(context_.get());
  for (const CacheChange& change : plan.changes) {
    if (change.kind == CacheChange::Kind::kShare) {
      llama_memory_seq_cp(memory, change.source, change.sequence, 0, change.tokens);
    } else if (!llama_memory_seq_rm(memory, change.sequence, change.tokens, -1)) {
      return Outcome::kBroken;
    }
  }
  if (plan.pieces.empty()) return Outcome::kDone;
  llama_set_embeddings(context_.get(), plan.embedding);
  batch_->clear();
  first_rows_.clear();
  last_rows_.clear();
  for (const Piece& piece : plan.pieces) {
    first_rows_.push_back(batch_->get().n_tokens);
    for (size_t i = 0; i < piece.tokens.size(); ++i) {
      const bool output = plan.embedding || piece.every_output || (piece.wants_output && i + 1 == piece.tokens.size());
      batch_->add(piece.tokens[i], piece.start + static_cast<int32_t>(i), piece.sequence, output);
    }
    last_rows_.push_back(batch_->get().n_tokens - 1);
  }
  const int32_t result = llama_decode(context_.get(), batch_->get());
  if (result == 0) return Outcome::kDone;
  return result == 1 ? Outcome::kNoRoom : Outcome::kBroken;
}

std::span<float> Runner::logits(size_t piece) {
  return {llama_get_logits_ith(context_.get(), last_rows_[piece]), static_cast<size_t>(tokenizer_->size())};
}

std::span<const float> Runner::logits(size_t piece, size_t token) {
  return {llama_get_logits_ith(context_.get(), first_rows_[piece] + static_cast<int32_t>(token)),
          static_cast<size_t>(tokenizer_->size())};
}

std::span<const float> Runner::hidden(size_t piece) {
  const auto count = static_cast<size_t>(last_rows_[piece] - first_rows_[piece] + 1);
  return {llama_get_embeddings_ith(context_.get(), first_rows_[piece]), count * static_cast<size_t>(hidden_width())};
}

int32_t Runner::hidden_width() const { return llama_model_n_embd_out(model_.get()); }

void Runner::clear() { llama_memory_clear(llama_get_memory(context_.get()), false); }

}  // namespace serving
