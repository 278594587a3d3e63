#include "runtime/cli/processes.h"

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <functional>
#include <map>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/fd.h"
#include "runtime/base/text.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;
using base::cat;

constexpr base::Duration kAfterKill = 2s;  // a killed process is gone in milliseconds; more means the kernel holds it

DaemonProcesses find(std::string what, const base::Path& keeper_pid, const base::Path& daemon_pid) {
  return {std::move(what), base::live_pid(keeper_pid).value_or(0), base::live_pid(daemon_pid).value_or(0)};
}

// False at the deadline. A child of ours (a start that failed) is reaped.
bool await_end(pid_t pid, base::TimePoint deadline) {
  if (pid <= 0) return true;
  base::Fd handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  for (bool ended = !handle; !ended;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - base::system_clock().now()).count();
    pollfd waiting{handle.get(), POLLIN, 0};
    ended = poll(&waiting, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60'000))) > 0;
    if (!ended && left <= 0) return false;
  }
  waitpid(pid, nullptr, WNOHANG);
  return true;
}

pid_t parent_of(pid_t pid) {
  auto stat = base::read_file(cat("/proc/", pid, "/stat"));
  if (!stat.ok() || stat->rfind(')') == std::string::npos) return 0;
  auto fields = base::split(std::string_view(*stat).substr(stat->rfind(')') + 1), ' ');
  pid_t parent = 0;
  if (fields.size() > 2) std::from_chars(fields[2].data(), fields[2].data() + fields[2].size(), parent);
  return parent;
}

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  DIR* proc = opendir("/proc");
  if (!proc) return pids;
  while (const dirent* entry = readdir(proc)) {
    pid_t pid = 0;
    std::string_view name = entry->d_name;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec == std::errc()) pids.push_back(pid);
  }
  closedir(proc);
  return pids;
}

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  for (pid_t pid : all_pids()) children.emplace(parent_of(pid), pid);
  return children;
}

bool of_this_user_and_mounts(pid_t pid) {
  struct stat process {};
  if (stat(cat("/proc/", pid).c_str(), &process) != 0 || process.st_uid != geteuid()) return false;
  struct stat theirs {
  }, ours{};
  return stat(cat("/proc/", pid, "/ns/mnt").c_str(), &theirs) == 0 && stat("/proc/self/ns/mnt", &ours) == 0 &&
         theirs.st_ino == ours.st_ino;
}

struct CommandLine {
  base::Path place;  // the directory of its settings; empty: no daemon of a session
  bool keeper = false;
};

CommandLine command_line_of(pid_t pid) {
  auto text = base::read_file(cat("/proc/", pid, "/cmdline"));
  if (!text.ok()) return {};
  CommandLine found;
  auto words = base::split(*text, '\0');
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "--pid-file") found.keeper = true;
    if (words[i] == "--settings") found.place = base::Path(words[i + 1]).parent_path();
  }
  return found;
}

// The daemon first: its keeper then ends what is left of the tree. Where the keeper cannot, we do.
void kill_tree(const DaemonProcesses& one) {
  std::vector<pid_t> tree = tree_of(one.keeper > 0 ? one.keeper : one.daemon);
  if (one.keeper > 0 && one.daemon > 0) {
    kill(one.daemon, SIGKILL);
    if (await_end(one.keeper, base::deadline_after(base::system_clock().now(), kAfterKill))) return;
  }
  for (pid_t pid : tree) kill(pid, SIGKILL);
  auto deadline = base::deadline_after(base::system_clock().now(), kAfterKill);
  for (pid_t pid : tree) await_end(pid, deadline);
}

}  // namespace

std::vector<pid_t> tree_of(pid_t root) {
  std::multimap<pid_t, pid_t> children = children_by_parent();
  std::vector<pid_t> tree = {root};
  for (size_t next = 0; next < tree.size(); ++next) {
    auto [first, last] = children.equal_range(tree[next]);
    for (auto child = first; child != last; ++child) tree.push_back(child->second);
  }
  return tree;
}

std::vector<DaemonProcesses> live_daemons(const base::NodeFiles& node) {
  DaemonProcesses one = find(cat("node ", node.number), node.keeper_pid(), node.raylet_pid());
  if (one.keeper == 0 && one.daemon == 0) return {};
  return {one};
}

std::vector<DaemonProcesses> live_daemons(const base::Session& session) {
  std::vector<DaemonProcesses> daemons;
  for (const base::NodeFiles& node : session.nodes) {
    for (DaemonProcesses& one : live_daemons(node)) daemons.push_back(std::move(one));
  }
  DaemonProcesses head = find("head", session.head().keeper_pid(), session.head().head_pid());
  if (head.keeper > 0 || head.daemon > 0) daemons.push_back(std::move(head));
  return daemons;
}

std::vector<DaemonProcesses> lost_daemons(const base::Session& session) {
  std::map<base::Path, DaemonProcesses, std::greater<>> found;  // node-... before head
  for (pid_t pid : all_pids()) {
    CommandLine line = command_line_of(pid);
    if (line.place.parent_path() != session.dir || line.place.empty() || !of_this_user_and_mounts(pid)) continue;
    DaemonProcesses& one = found[line.place];
    one.what = line.place.filename().string();
    pid_t& known = line.keeper ? one.keeper : one.daemon;
    if (known == 0) known = pid;  // a child that it has just forked looks like it
  }
  std::vector<DaemonProcesses> lost;
  auto named = live_daemons(session);
  for (auto& [place, one] : found) {
    bool known = std::any_of(named.begin(), named.end(), [&one](const DaemonProcesses& other) {
      return (one.keeper > 0 && one.keeper == other.keeper) || (one.daemon > 0 && one.daemon == other.daemon);
    });
    if (!known) lost.push_back(std::move(one));
  }
  return lost;
}

std::vector<std::string> end_daemons(const std::vector<DaemonProcesses>& daemons, base::Duration grace) {
  for (const DaemonProcesses& one : daemons) kill(one.keeper > 0 ? one.keeper : one.daemon, SIGTERM);
  auto deadline = base::deadline_after(base::system_clock().now(), grace);
  std::vector<std::string> killed;
  for (const DaemonProcesses& one : daemons) {
    if (await_end(one.daemon, deadline) && await_end(one.keeper, deadline)) continue;
    kill_tree(one);
    killed.push_back(one.what);
  }
  return killed;
}

}  // namespace rayo::cli
