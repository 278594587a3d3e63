// Reads a model's files for nodes that lack them: an actor on the node of `rayo serve`.
//
//   auto source = rayo::spawn<ModelSource>({.node = here}, paths);
//   std::vector<ModelPart> parts = source.call<&ModelSource::parts>().get();
//   std::vector<uint8_t> bytes = source.call<&ModelSource::chunk>(0, offset, 4 << 20).get();   // travels as an object
#pragma once

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <rayo/rayo.h>

#include "examples/llm_serving/model_copy.h"

namespace serving {

struct ModelSource {
  std::vector<std::string> paths;
  std::vector<ModelPart> described = {};

  // Reads every byte the first time.
  std::vector<ModelPart> parts() {
    if (described.empty()) {
      Result<std::vector<ModelPart>> made = describe_files(paths);
      if (!made) throw std::runtime_error(made.problem().what);
      described = std::move(*made);
    }
    return described;
  }

  std::vector<uint8_t> chunk(uint64_t part, uint64_t offset, uint64_t bytes) {
    std::ifstream in(paths.at(part), std::ios::binary);
    in.seekg(static_cast<std::streamoff>(offset));
    std::vector<uint8_t> read(bytes);
    in.read(reinterpret_cast<char*>(read.data()), static_cast<std::streamsize>(bytes));
    read.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
    return read;
  }
};

// Where the file is on this machine: at `path`, if it is whole there and has as many bytes as the source's (another file may have
// that name here), else in its models/, where it is brought from `source`.
Result<std::string> fetch_model(const std::string& path, uint64_t bytes, const rayo::ActorHandle<ModelSource>& source,
                                const CopyProgress& progress);

}  // namespace serving
