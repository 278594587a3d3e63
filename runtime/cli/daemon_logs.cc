#include "runtime/cli/daemon_logs.h"

#include <charconv>
#include <fstream>
#include <iterator>

#include "runtime/base/text.h"
#include "runtime/cli/interrupts.h"
#include "runtime/cli/json_log.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;
using base::cat;

constexpr base::Duration kFollowEach = 100ms;

struct LogFile {
  std::string title;
  base::Path path;
  base::Path pid_file;
  std::streamoff read_to = 0;
};

std::vector<LogFile> files_of(const base::Session& session, const std::string& which) {
  std::vector<LogFile> files;
  if (session.has_head && (which.empty() || which == "head"))
    files.push_back({"head", session.head().log(), session.head().head_pid()});
  for (const base::NodeFiles& node : session.nodes) {
    std::string title = cat("node-", node.number);
    if (which.empty() || which == title) files.push_back({title, node.log(), node.raylet_pid()});
  }
  return files;
}

std::string read_on(LogFile& file) {
  std::ifstream stream(file.path, std::ios::binary);
  stream.seekg(0, std::ios::end);
  if (stream.tellg() < file.read_to) file.read_to = 0;  // it was cut
  stream.seekg(file.read_to);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  file.read_to += static_cast<std::streamoff>(text.size());
  return text;
}

int print_json(std::vector<LogFile>& files, const DaemonLogs& wanted, Terminal& terminal) {
  std::vector<JsonLog> logs;
  for (LogFile& file : files) {
    logs.emplace_back(terminal.out(),
                      LogOrigin{.pid = base::live_pid(file.pid_file).value_or(0), .name = file.title, .daemon = true});
    std::string text = read_on(file);
    logs.back().add(base::last_lines(text, wanted.tail), true);
  }
  if (wanted.follow) {
    Interrupts interrupts;
    while (terminal.out().good() && !interrupts.wait(kFollowEach))
      for (size_t i = 0; i < files.size(); ++i) logs[i].add(read_on(files[i]), true);
  }
  for (JsonLog& log : logs) log.finish();
  return kDone;
}

}  // namespace

base::StatusOr<int64_t> parse_line_count(std::string_view text) {
  int64_t lines = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), lines);
  if (error == std::errc() && end == text.data() + text.size() && lines >= 0) return lines;
  return base::failed(absl::StatusCode::kInvalidArgument,
                      cat("cannot use --tail '", text, "': it is not a number of lines"), "--tail 100");
}

int print_daemon_logs(const base::Session& session, const DaemonLogs& wanted, Terminal& terminal) {
  std::vector<LogFile> files = files_of(session, wanted.which);
  if (files.empty())
    return terminal.fail(cat("no log of '", wanted.which, "' here: this machine has no such daemon"), "rayo logs",
                         kFailed);
  if (wanted.json) return print_json(files, wanted, terminal);
  for (LogFile& file : files) {
    if (files.size() > 1) terminal.out() << "==> " << file.title << " (" << file.path.string() << ") <==\n";
    std::string text = read_on(file);
    terminal.out() << base::last_lines(text, wanted.tail) << std::flush;
  }
  if (!wanted.follow) return kDone;
  Interrupts interrupts;
  while (terminal.out().good() && !interrupts.wait(kFollowEach)) {
    for (LogFile& file : files) terminal.out() << read_on(file) << std::flush;
  }
  return kDone;
}

}  // namespace rayo::cli
