// A model's files, looked at before anything is loaded: what is wrong with them is said in a sentence, with figures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/llm_serving/engine/result.h"

namespace serving {

struct ModelFile {
  std::vector<std::string> paths;  // one, or all parts in order
  uint64_t size_bytes = 0;         // of all
  std::string architecture;        // llama
  std::string name;                // what the file calls the model, else the file's name
  int32_t trained_context = 0;
  int32_t layers = 0;               // 0: the file does not tell
  uint64_t kv_bytes_per_token = 0;  // of an F16 cache; 0: the file does not tell
};

// Missing, not a GGUF file, cut off, or a part of several missing. `path`: with -00001-of-N parts, the first.
Result<ModelFile> check_model_file(const std::string& path);

// Whether all parts are there and have so many bytes together. What they hold is not looked at.
bool is_whole(const std::string& path, uint64_t bytes);

// Whether weights and a KV cache of `kv_tokens` have room in `free_bytes`; the refusal names all figures.
// Weights are mapped from the page cache, which the system counts as available.
Result<uint64_t> check_memory(const ModelFile& file, int32_t kv_tokens, uint64_t free_bytes);

// What a process may still take: the system's available memory, or less by its control groups.
uint64_t available_memory_bytes();

// 1610612736 -> "1.5 GiB"
std::string bytes_text(uint64_t bytes);

}  // namespace serving
