// What commonly breaks a cluster on a machine, each with its mend. Reads files and asks the kernel; changes
// nothing.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/private_file.h"

namespace rayo::cli {

enum class Health { kGood, kNotice, kBad };  // kNotice: works, but slower or with less room than it could

struct Finding {
  std::string check;
  Health health = Health::kGood;
  std::string text;  // with figures
  std::string mend;  // where it is not good
};

// `root` stands before /proc and /sys: "/" but in tests.
Finding check_descriptors(uint64_t soft, uint64_t hard);
Finding check_memory_cgroup(const base::Path& root);
Finding check_worker_groups(const base::Path& root);
Finding check_huge_pages(const base::Path& root);
Finding check_shared_memory();
Finding check_processor(const base::Path& root);
Finding check_gpus();
Finding check_port(int port, const std::string& what);
Finding check_clock();
Finding check_directory(const std::string& what, const base::Path& dir);

std::vector<Finding> check_machine();

}  // namespace rayo::cli
