#include "runtime/cli/processes.h"

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <map>
#include <poll.h>
#include <signal.h>
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

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  DIR* proc = opendir("/proc");
  if (!proc) return children;
  while (const dirent* entry = readdir(proc)) {
    pid_t pid = 0;
    std::string_view name = entry->d_name;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec == std::errc())
      children.emplace(parent_of(pid), pid);
  }
  closedir(proc);
  return children;
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
