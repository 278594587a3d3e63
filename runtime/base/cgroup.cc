#include "runtime/base/cgroup.h"

#include <algorithm>
#include <sstream>
#include <unistd.h>

#include "runtime/base/text.h"

namespace rayo::base {
namespace {

bool is_there(const Path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Where a hierarchy is mounted. A machine with version 1 controllers has the unified one beside them.
Path mount_of(std::string_view controller, const Path& root) {
  const Path all = root / "sys/fs/cgroup";
  if (!controller.empty()) return all / controller;
  return is_there(all / "cgroup.controllers") ? all : all / "unified";
}

}  // namespace

Path own_cgroup(std::string_view controller, const Path& root) {
  auto lines = read_file(root / "proc/self/cgroup");
  if (!lines.ok()) return {};
  for (const auto& line : split(*lines, '\n')) {
    auto fields = split(line, ':');
    if (fields.size() < 3) continue;
    auto controllers = split(fields[1], ',');
    bool match =
        controller.empty() ? fields[0] == "0" : std::ranges::find(controllers, controller) != controllers.end();
    if (!match) continue;
    const Path mount = mount_of(controller, root);
    // In a container the path may be the host's: then the mount itself is our group.
    Path folder = fields[2] == "/" ? mount : mount / Path(fields[2]).relative_path();
    if (!is_there(folder)) folder = mount;
    return is_there(folder) ? folder : Path();
  }
  return {};
}

std::vector<Path> divisible_cgroups(const Path& root) {
  std::vector<Path> out;
  for (const char* controller : {"", "memory"}) {
    Path group = own_cgroup(controller, root);
    if (group.empty() || access(group.c_str(), W_OK) != 0) continue;
    if (access((group / "cgroup.procs").c_str(), W_OK) == 0) out.push_back(std::move(group));
  }
  return out;
}

int64_t number_after(const std::string& text, std::string_view key) {
  std::istringstream words(text);
  std::string word;
  int64_t value = 0;
  while (words >> word >> value)
    if (word == key) return value;
  return -1;
}

void remove_cgroups(const Path& parent, std::string_view prefix) {
  std::error_code ignored;
  std::vector<Path> meant;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored))
    if (entry.path().filename().string().starts_with(prefix)) meant.push_back(entry.path());
  for (const Path& group : meant) {
    std::vector<Path> inner;
    for (const auto& entry : std::filesystem::directory_iterator(group, ignored))
      if (entry.is_directory(ignored)) inner.push_back(entry.path());
    for (const Path& one : inner) ::rmdir(one.c_str());
    ::rmdir(group.c_str());
  }
}

}  // namespace rayo::base
