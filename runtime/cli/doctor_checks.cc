#include "runtime/cli/doctor_checks.h"

#include <arpa/inet.h>
#include <charconv>
#include <ctime>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include "gpu/device.h"
#include "runtime/base/cgroup.h"
#include "runtime/base/fd.h"
#include "runtime/base/open_files.h"
#include "runtime/base/session.h"
#include "runtime/base/text.h"
#include "runtime/base/units.h"
#include "runtime/cli/start_options.h"
#include "runtime/rpc/port_holder.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;
using base::cat;

constexpr uint64_t kEnoughDescriptors =
    4096;  // of a raylet: seven for each of a few hundred workers, and the connections
constexpr uint64_t kUsualDescriptors = 1024;    // of a program or worker: what systems give
constexpr uint64_t kDescriptorsOfARing = 2;     // the peer's two eventfds
constexpr int64_t kEnoughMemory = 512ll << 20;  // a raylet, a head and a few workers
constexpr int64_t kEnoughDisk = 1ll << 30;      // logs of one session (1 GiB) and the control store

std::string text_of(const base::Path& file) {
  auto content = base::read_file(file);
  return content.ok() ? std::string(base::trim(*content)) : std::string();
}

int64_t number_of(const base::Path& file) {
  std::string text = text_of(file);
  int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

// Daemons raise the soft limit to the hard one; programs and their workers keep it.
Finding check_descriptors(uint64_t soft, uint64_t hard) {
  std::string text =
      cat("open files: ", hard, " for a node (hard limit), ", soft, " for a program or worker (soft limit)");
  if (hard < kEnoughDescriptors) {
    return {"limits", Health::kBad, text,
            cat("raise the hard limit to ", kEnoughDescriptors,
                " or more: `ulimit -Hn`, /etc/security/limits.conf, or LimitNOFILE")};
  }
  if (soft < kUsualDescriptors) {
    return {"limits", Health::kNotice, cat(text, ": it can reach some ", soft / kDescriptorsOfARing, " others"),
            cat("raise the soft limit to ", kUsualDescriptors, " or more (`ulimit -Sn ", kUsualDescriptors,
                "`) before a node or program is started")};
  }
  return {"limits", Health::kGood, text, {}};
}

Finding check_memory_cgroup(const base::Path& root) {
  for (const char* name : {"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t limit = number_of(root / name);
    if (limit <= 0 || limit > (int64_t{1} << 60)) continue;
    std::string text = cat("this cgroup may use ", base::format_size(limit));
    if (limit >= kEnoughMemory) return {"memory cgroup", Health::kGood, text, {}};
    return {"memory cgroup", Health::kBad, text,
            cat("give the container or unit at least ", base::format_size(kEnoughMemory))};
  }
  return {"memory cgroup", Health::kGood, "no limit", {}};
}

Finding check_worker_groups(const base::Path& root) {
  std::vector<std::string> groups;
  for (const base::Path& group : base::divisible_cgroups(root)) groups.push_back(group.string());
  if (!groups.empty())
    return {"worker groups",
            Health::kGood,
            cat("each worker gets a control group below ", base::join(groups, " and ")),
            {}};
  return {"worker groups", Health::kNotice,
          "no control groups can be made: an end for want of memory may be laid to the wrong one of two workers",
          "systemd-run --user --scope -p Delegate=yes, or start nodes as root"};
}

Finding check_huge_pages(const base::Path& root) {
  std::string shmem = text_of(root / "sys/kernel/mm/transparent_hugepage/shmem_enabled");
  int64_t reserved = number_of(root / "proc/sys/vm/nr_hugepages");
  bool advised =
      shmem.find("[never]") == std::string::npos && shmem.find("[deny]") == std::string::npos && !shmem.empty();
  if (reserved > 0 || advised)
    return {"huge pages", Health::kGood, cat("reserved: ", std::max<int64_t>(reserved, 0), ", shmem: ", shmem), {}};
  return {"huge pages", Health::kNotice, "none: the first write into fresh shared memory is 10 to 50 times slower",
          "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled (as root)"};
}

Finding check_shared_memory() {
  struct statvfs found {};
  if (statvfs("/dev/shm", &found) != 0)
    return {"shared memory", Health::kNotice, "no /dev/shm: the arena uses memfd", "mount a tmpfs at /dev/shm"};
  int64_t free = static_cast<int64_t>(found.f_bavail) * static_cast<int64_t>(found.f_frsize);
  std::string text = cat("/dev/shm has ", base::format_size(free), " free");
  if (free >= kEnoughMemory) return {"shared memory", Health::kGood, text, {}};
  return {"shared memory", Health::kNotice, text, "mount it larger (docker run --shm-size=4g)"};
}

Finding check_processor(const base::Path& root) {
  std::string info = text_of(root / "proc/cpuinfo");
  for (const char* flag : {" sse4_2", " popcnt", " ssse3"}) {
    if (info.find(flag) == std::string::npos) {
      return {"processor", Health::kBad, cat("no", flag, " instructions"),
              "use a processor of x86-64-v2 (2009 and later)"};
    }
  }
  return {"processor", Health::kGood, cat(sysconf(_SC_NPROCESSORS_ONLN), " CPUs, x86-64-v2"), {}};
}

Finding check_gpus() {
  gpu::DeviceList list = gpu::list_devices(base::deadline_after(base::system_clock().now(), 10s));
  if (list.devices.empty()) {
    bool hangs =
        list.reason.find("did not answer") != std::string::npos || list.reason.find("signal") != std::string::npos;
    return {"NVML", hangs ? Health::kBad : Health::kGood, cat("no GPU (", list.reason, ")"),
            hangs ? "reload the driver or restart the machine" : ""};
  }
  std::vector<std::string> parts;
  bool sick = false;
  for (const gpu::Device& device : list.devices) {
    parts.push_back(cat(device.index, " ", device.model,
                        device.state == "ok" ? std::string() : cat(" (", device.state, ": ", device.reason, ")")));
    sick = sick || device.state != "ok";
  }
  return {"NVML", sick ? Health::kNotice : Health::kGood, base::join(parts, ", "),
          sick ? "nvidia-smi -q shows more; nvidia-smi -r resets a device" : ""};
}

Finding check_port(int port, const std::string& what) {
  base::Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(fd.get(), 1) == 0) {
    return {"port", Health::kGood, cat(port, " (", what, ") is free"), {}};
  }
  std::string holder = rpc::port_holder(port);
  return {
      "port",
      Health::kGood,
      cat(port, " (", what, ") is taken by ", holder.empty() ? "another process" : holder, ": start takes another one"),
      {}};
}

Finding check_clock() {
  constexpr time_t kThisCodeIsFrom = 1'767'225'600;  // 2026-01-01
  if (std::time(nullptr) < kThisCodeIsFrom) {
    return {"clock", Health::kBad, "it stands before 2026: certificates would not be valid",
            "set it: timedatectl set-ntp true, or date"};
  }
  timex state{};
  int result = adjtimex(&state);
  if (result == TIME_ERROR || (state.status & STA_UNSYNC)) {
    return {"clock", Health::kNotice, "it is not kept by NTP: times in logs of several machines may differ",
            "timedatectl set-ntp true (machines more than a day apart cannot join)"};
  }
  return {"clock", Health::kGood, "kept by NTP", {}};
}

Finding check_directory(const std::string& what, const base::Path& dir) {
  base::Path existing = dir;
  std::error_code error;
  while (!existing.empty() && !std::filesystem::exists(existing, error) && existing.has_parent_path())
    existing = existing.parent_path();
  struct statvfs found {};
  if (statvfs(existing.c_str(), &found) != 0 || access(existing.c_str(), W_OK) != 0) {
    return {what, Health::kBad, cat(dir.string(), " cannot be written"),
            "set RAYO_HOME and RAYO_RUNTIME_DIR to directories of your own"};
  }
  int64_t free = static_cast<int64_t>(found.f_bavail) * static_cast<int64_t>(found.f_frsize);
  std::string text = cat(dir.string(), ": ", base::format_size(free), " free");
  if (free >= kEnoughDisk) return {what, Health::kGood, text, {}};
  return {what, Health::kNotice, text, "make room: logs of one session take up to 1 GiB"};
}

std::vector<Finding> check_machine() {
  const rlimit files = base::open_files();
  return {check_processor("/"),
          check_descriptors(files.rlim_cur, files.rlim_max),
          check_memory_cgroup("/"),
          check_worker_groups("/"),
          check_huge_pages("/"),
          check_shared_memory(),
          check_gpus(),
          check_port(kHeadPort, "head"),
          check_port(kNodePort, "node"),
          check_port(kHttpPort, "HTTP"),
          check_clock(),
          check_directory("home", base::home_dir()),
          check_directory("runtime", base::runtime_dir()),
          check_directory("state", base::state_dir())};
}

}  // namespace rayo::cli
