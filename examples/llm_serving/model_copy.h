// A model's files, brought to a machine that lacks them: in chunks, checked by SHA-256, under their names in one folder.
//
// A file is there under its name only when it is whole and checked; `NAME.sha256` beside it says so. Two who copy to one folder at
// a time take turns (flock), and the second finds everything done.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "examples/llm_serving/engine/result.h"

namespace serving {

struct ModelPart {
  std::string name;  // of the file, without a folder
  uint64_t bytes = 0;
  std::string sha256;  // in hex
};

// Names, sizes and sums of files; reads all of them.
Result<std::vector<ModelPart>> describe_files(const std::vector<std::string>& paths);

// Asks for bytes of a part; they are waited for by calling what it returns. May throw std::exception.
using AwaitChunk = std::function<std::vector<uint8_t>()>;
using AskChunk = std::function<AwaitChunk(size_t part, uint64_t offset, uint64_t bytes)>;
// Told the part (0..1) that is there; false ends the copy.
using CopyProgress = std::function<bool(double)>;

// The path of the first part in `folder`. Problems: no room (with figures), a chunk that does not come, a sum that differs.
Result<std::string> copy_model(const std::vector<ModelPart>& parts, const std::filesystem::path& folder,
                               const AskChunk& ask, const CopyProgress& progress);

}  // namespace serving
