#include "runtime/rpc/port_holder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <pwd.h>
#include <unistd.h>

#include "runtime/base/text.h"

namespace rayo::rpc {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kListening = "0A";

std::string slurp(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

template <class Number>
std::optional<Number> number(std::string_view text, int radix) {
  Number value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, radix);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "  0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0 12345 ..."
std::optional<Listener> parse_line(std::string_view line) {
  std::vector<std::string> columns;
  for (std::string& piece : base::split(line, ' '))
    if (!piece.empty()) columns.push_back(std::move(piece));
  if (columns.size() < 10 || columns[3] != kListening) return std::nullopt;
  size_t colon = columns[1].rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  auto port = number<int>(std::string_view(columns[1]).substr(colon + 1), 16);
  auto uid = number<uint32_t>(columns[7], 10);
  auto inode = number<uint64_t>(columns[9], 10);
  if (!port || !uid || !inode) return std::nullopt;
  return Listener{*port, *inode, *uid};
}

bool holds(const fs::path& process, uint64_t inode) {
  std::string wanted = base::cat("socket:[", inode, "]");
  std::error_code error;
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (fs::read_symlink(at->path(), gone) == wanted) return true;
  }
  return false;
}

std::string find_process(uint64_t inode) {
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    std::string pid = at->path().filename();
    if (!number<int>(pid, 10) || !holds(at->path(), inode)) continue;
    std::string name(base::trim(slurp(at->path() / "comm")));
    return base::cat(name.empty() ? "a process" : name, " (pid ", pid, ")");
  }
  return {};
}

std::string user_name(uint32_t uid) {
  char buffer[1024];
  passwd entry{}, *found = nullptr;
  if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found) return found->pw_name;
  return std::to_string(uid);
}

}  // namespace

std::vector<Listener> parse_listeners(std::string_view proc_net_tcp) {
  std::vector<Listener> found;
  for (const std::string& line : base::split(proc_net_tcp, '\n'))
    if (auto listener = parse_line(line)) found.push_back(*listener);
  return found;
}

std::string port_holder(int port) {
  std::vector<Listener> all = parse_listeners(slurp("/proc/net/tcp") + slurp("/proc/net/tcp6"));
  std::erase_if(all, [port](const Listener& one) { return one.port != port; });
  for (const Listener& one : all)
    if (std::string process = find_process(one.inode); !process.empty()) return process;
  return all.empty() ? std::string() : base::cat("a process of user ", user_name(all.front().uid));
}

}  // namespace rayo::rpc
