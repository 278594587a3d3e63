#include "examples/llm_serving/engine/bounded_child.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace serving {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t data_bytes() {
  // Pages: size resident shared text lib data
  uint64_t ignored = 0, data = 0;
  std::ifstream("/proc/self/statm") >> ignored >> ignored >> ignored >> ignored >> ignored >> data;
  return data * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void write_all(int handle, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t count = write(handle, text.data() + at, text.size() - at);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) at += static_cast<size_t>(count);
  }
}

[[noreturn]] void be_child(int handle, const ChildLimits& limits, const std::function<Result<std::string>()>& work) {
  for (int number : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE}) signal(number, SIG_DFL);
  const rlimit memory{data_bytes() + limits.memory_bytes, RLIM_INFINITY};
  setrlimit(RLIMIT_DATA, &memory);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::string answer;
  try {
    const Result<std::string> result = work();
    answer = result ? "+" + *result : "-" + result.problem().what;
  } catch (const std::bad_alloc&) {
    _exit(2);
  } catch (const std::exception& error) {
    answer = std::string("-") + error.what();
  }
  write_all(handle, answer);
  _exit(0);
}

// Until the other end closes or the time is over (false).
bool read_until(int handle, Clock::time_point deadline, std::string& out) {
  char buffer[16384];
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{handle, POLLIN, 0};
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) == 0) return false;
    const ssize_t count = read(handle, buffer, sizeof buffer);
    if (count == 0) return true;
    if (count > 0) out.append(buffer, static_cast<size_t>(count));
    if (count < 0 && errno != EINTR) return true;
  }
}

}  // namespace

Result<std::string> run_bounded(const ChildLimits& limits, const std::function<Result<std::string>()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Problem{std::string("no pipe to a child: ") + strerror(errno), ""};
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return Problem{std::string("no child: ") + strerror(errno), ""};
  }
  if (child == 0) be_child(ends[1], limits, work);
  close(ends[1]);
  std::string answer;
  const bool in_time = read_until(ends[0], Clock::now() + limits.time, answer);
  close(ends[0]);
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) return Problem{"it takes more than " + std::to_string(limits.time.count()) + " ms", ""};
  if (answer.empty())  // out of memory, however that showed
    return Problem{"it takes more than " + std::to_string(limits.memory_bytes >> 20) + " MiB of memory", ""};
  if (answer[0] == '-') return Problem{answer.substr(1), ""};
  return answer.substr(1);
}

}  // namespace serving
