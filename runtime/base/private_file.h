// Files that only their owner reads: tokens, pointers, pid files, settings. Plain calls from any thread; nothing is
// cached.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace rayo::base {

using Path = std::filesystem::path;

// Creates the directory (0700, ours) with its parents; an error names what stands in the way.
Status make_private_dir(const Path& dir);
// Writes a file in one step (temporary + rename), mode 0600.
Status write_private_file(const Path& file, std::string_view content);
// The whole file, at most 16 MiB.
StatusOr<std::string> read_file(const Path& file);

}  // namespace rayo::base
