#include "examples/llm_serving/model_source.h"

#include "examples/llm_serving/engine/model_file.h"
#include "examples/llm_serving/model_path.h"

namespace serving {
namespace {

constexpr std::chrono::seconds kChunkPatience{60};

}  // namespace

Result<std::string> fetch_model(const std::string& path, uint64_t bytes, const rayo::ActorHandle<ModelSource>& source,
                                const CopyProgress& progress) {
  if (is_whole(path, bytes)) return path;
  std::vector<ModelPart> parts;
  try {
    parts = source.call<&ModelSource::parts>().get();
  } catch (const rayo::Error& failure) {
    return Problem{"the node of rayo serve does not hand out the model: " + failure.text(), ""};
  }
  return copy_model(
      parts, models_folder(),
      [&source](size_t part, uint64_t offset, uint64_t bytes) -> AwaitChunk {
        return [ref = source.call<&ModelSource::chunk>(part, offset, bytes)] { return ref.get(kChunkPatience); };
      },
      progress);
}

}  // namespace serving
