#include "runtime/base/programs.h"

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include "runtime/base/text.h"

namespace rayo::base {
namespace {

namespace fs = std::filesystem;

bool runs(const fs::path& path) {
  std::error_code error;
  return ::access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path, error);
}

}  // namespace

std::string find_program(std::string_view name, std::string_view search) {
  if (name.find('/') != std::string_view::npos) {
    std::error_code error;
    const fs::path whole = fs::absolute(name, error).lexically_normal();
    return runs(whole) ? whole.string() : std::string();
  }
  for (const std::string& folder : split(search, ':')) {
    const fs::path place = fs::path(folder) / name;
    if (!folder.empty() && runs(place)) return place.string();
  }
  return {};
}

std::string find_program(std::string_view name) {
  const char* search = std::getenv("PATH");
  return find_program(name, search ? search : "");
}

}  // namespace rayo::base
