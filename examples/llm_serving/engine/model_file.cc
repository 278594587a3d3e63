#include "examples/llm_serving/engine/model_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ggml.h>
#include <gguf.h>
#include <memory>
#include <optional>

#include "examples/llm_serving/engine/llama_log.h"

namespace serving {
namespace {

namespace fs = std::filesystem;

using Header = std::unique_ptr<gguf_context, decltype(&gguf_free)>;

// "dir/model-00002-of-00004.gguf" is part 2 of 4 of "dir/model".
struct PartName {
  std::string prefix;
  int part = 1;
  int parts = 1;

  std::string path(int number) const {
    char tail[32];
    std::snprintf(tail, sizeof tail, "-%05d-of-%05d.gguf", number, parts);
    return prefix + tail;
  }
};

std::optional<PartName> part_name(const std::string& path) {
  constexpr size_t kTail = sizeof("-00001-of-00004.gguf") - 1;
  if (path.size() <= kTail) return std::nullopt;
  PartName name{path.substr(0, path.size() - kTail), 0, 0};
  int used = 0;
  const std::string tail = path.substr(path.size() - kTail);
  if (std::sscanf(tail.c_str(), "-%5d-of-%5d.gguf%n", &name.part, &name.parts, &used) != 2 ||
      used != static_cast<int>(kTail) || name.part < 1 || name.parts < name.part)
    return std::nullopt;
  return name;
}

// An integer of the header; of an array (one for each layer), the sum over `layers` or the entries there are.
uint64_t number(const gguf_context* header, const std::string& key, uint64_t fallback) {
  const int64_t id = gguf_find_key(header, key.c_str());
  if (id < 0) return fallback;
  switch (gguf_get_kv_type(header, id)) {
    case GGUF_TYPE_UINT32:
      return gguf_get_val_u32(header, id);
    case GGUF_TYPE_INT32:
      return static_cast<uint64_t>(std::max(0, gguf_get_val_i32(header, id)));
    case GGUF_TYPE_UINT64:
      return gguf_get_val_u64(header, id);
    case GGUF_TYPE_UINT16:
      return gguf_get_val_u16(header, id);
    default:
      return fallback;
  }
}

// Key-value heads of all layers together: one number for all, or one for each.
uint64_t kv_heads(const gguf_context* header, const std::string& key, uint64_t layers, uint64_t heads) {
  const int64_t id = gguf_find_key(header, key.c_str());
  if (id < 0 || gguf_get_kv_type(header, id) != GGUF_TYPE_ARRAY) return layers * number(header, key, heads);
  const gguf_type type = gguf_get_arr_type(header, id);
  if (type != GGUF_TYPE_INT32 && type != GGUF_TYPE_UINT32) return layers * heads;
  const auto* values = static_cast<const int32_t*>(gguf_get_arr_data(header, id));
  uint64_t sum = 0;
  for (size_t i = 0; i < gguf_get_arr_n(header, id); ++i) sum += static_cast<uint64_t>(std::max(0, values[i]));
  return sum;
}

std::string text(const gguf_context* header, const char* key) {
  const int64_t id = gguf_find_key(header, key);
  return id >= 0 && gguf_get_kv_type(header, id) == GGUF_TYPE_STRING ? gguf_get_val_str(header, id) : "";
}

uint64_t kv_bytes_per_token(const gguf_context* header, const std::string& architecture) {
  const auto key = [&](const char* name) { return architecture + "." + name; };
  const uint64_t layers = number(header, key("block_count"), 0);
  const uint64_t heads = number(header, key("attention.head_count"), 0);
  if (layers == 0 || heads == 0) return 0;
  const uint64_t width = number(header, key("embedding_length"), 0) / heads;
  const uint64_t both =
      number(header, key("attention.key_length"), width) + number(header, key("attention.value_length"), width);
  return kv_heads(header, key("attention.head_count_kv"), layers, heads) * both * 2;
}

Result<Header> read_header(const std::string& path, uint64_t size) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  if (std::memcmp(magic, "GGUF", sizeof magic) != 0)
    return Problem{path + " is not a GGUF file: its first bytes are not GGUF's",
                   "give a .gguf file, or convert the model with llama.cpp's convert_hf_to_gguf.py"};
  const LlamaErrors errors;
  Header header(gguf_init_from_file(path.c_str(), {true, nullptr}), gguf_free);
  if (!header)
    return Problem{path + " has a header that cannot be read, or is cut off inside of it (" + bytes_text(size) +
                       "): " + errors.cause(),
                   "download the file again and compare its SHA-256"};
  uint64_t end = 0;
  for (int64_t i = 0; i < gguf_get_n_tensors(header.get()); ++i)
    end = std::max<uint64_t>(end, gguf_get_tensor_offset(header.get(), i) + gguf_get_tensor_size(header.get(), i));
  end += gguf_get_data_offset(header.get());
  if (size < end)
    return Problem{path + " is cut off: " + std::to_string(size) + " bytes of " + std::to_string(end),
                   "download the file again and compare its SHA-256"};
  return header;
}

Result<uint64_t> file_size(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return Problem{"there is no model file " + path, "check the path, or use pip:NAME"};
  if (!fs::is_regular_file(status)) return Problem{path + " is not a file", "give the .gguf file itself"};
  std::ifstream file(path, std::ios::binary);
  if (!file) return Problem{path + " cannot be read: " + std::strerror(errno), "check its permissions"};
  const uint64_t size = fs::file_size(path, error);
  if (error) return Problem{path + " cannot be read: " + error.message(), "check its permissions"};
  return size;
}

std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char out[48];
  std::snprintf(out, sizeof out, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return out;
}

Result<ModelFile> check_model_file(const std::string& path) {
  capture_llama_log();
  const PartName parts = part_name(path).value_or(PartName{});
  if (parts.part != 1)
    return Problem{path + " is part " + std::to_string(parts.part) + " of " + std::to_string(parts.parts),
                   "give the first part, " + parts.path(1)};
  ModelFile file;
  for (int part = 1; part <= parts.parts; ++part) {
    const std::string one = parts.parts == 1 ? path : parts.path(part);
    const Result<uint64_t> size = file_size(one);
    if (!size && part > 1)
      return Problem{"of the model's " + std::to_string(parts.parts) + " parts one is missing: " + size.problem().what,
                     "put all parts into one folder"};
    if (!size) return size.problem();
    const Result<Header> header = read_header(one, *size);
    if (!header) return header.problem();
    file.paths.push_back(one);
    file.size_bytes += *size;
    if (part > 1) continue;
    file.architecture = text(header->get(), "general.architecture");
    file.name = text(header->get(), "general.name");
    if (file.name.empty()) file.name = fs::path(path).stem().string();
    file.trained_context = static_cast<int32_t>(number(header->get(), file.architecture + ".context_length", 0));
    file.layers = static_cast<int32_t>(number(header->get(), file.architecture + ".block_count", 0));
    file.kv_bytes_per_token = kv_bytes_per_token(header->get(), file.architecture);
  }
  return file;
}

bool is_whole(const std::string& path, uint64_t bytes) {
  const PartName parts = part_name(path).value_or(PartName{});
  uint64_t there = 0;
  for (int part = 1; part <= parts.parts; ++part) {
    const Result<uint64_t> size = file_size(parts.parts == 1 ? path : parts.path(part));
    if (!size) return false;
    there += *size;
  }
  return there == bytes;
}

Result<uint64_t> check_memory(const ModelFile& file, int32_t kv_tokens, uint64_t free_bytes) {
  const uint64_t cache = file.kv_bytes_per_token * static_cast<uint64_t>(kv_tokens);
  const uint64_t needed = file.size_bytes + cache;
  if (needed <= free_bytes) return needed;
  return Problem{file.name + " needs " + bytes_text(needed) + " (weights " + bytes_text(file.size_bytes) +
                     ", a KV cache of " + std::to_string(kv_tokens) + " tokens " + bytes_text(cache) + "), and " +
                     bytes_text(free_bytes) + " of memory is free here",
                 file.size_bytes > free_bytes ? "use a smaller model or quantisation, or a machine with more memory"
                                              : "use a smaller --max-context or --parallel"};
}

uint64_t available_memory_bytes() {
  uint64_t available = UINT64_MAX;
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    unsigned long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kilobytes) == 1) available = kilobytes * 1024;
  }
  const std::pair<const char*, const char*> groups[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  for (const auto& [limit_path, used_path] : groups) {
    const auto limit = number_in(limit_path), used = number_in(used_path);
    if (limit && used) available = std::min(available, *limit > *used ? *limit - *used : 0);
  }
  return available;
}

}  // namespace serving
