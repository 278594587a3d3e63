#include "examples/llm_serving/background.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/llm_serving/model_path.h"

namespace serving {
namespace {

// Until now Ctrl-C at the terminal reached the child too.
void leave_terminal(uint16_t port) {
  setsid();
  const std::string log =
      std::filesystem::path(models_folder()).parent_path() / ("serve-" + std::to_string(port) + ".log");
  std::printf("it goes on in the background: rayo serve stop --port %u; it prints into %s\n", port, log.c_str());
  std::fflush(stdout);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0) out = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  close(nothing);
  close(out);
}

}  // namespace

int run_in_background(const std::function<int(const std::function<void(uint16_t port)>& ready)>& work) {
  std::array<int, 2> ends{};
  const pid_t child = pipe2(ends.data(), O_CLOEXEC) == 0 ? fork() : -1;
  if (child < 0) {
    std::fprintf(stderr, "rayo: cannot serve: no process in the background: %s\ntry: rayo serve without --detach\n",
                 std::strerror(errno));
    return 1;
  }
  if (child == 0) {
    close(ends[0]);
    const int code = work([end = ends[1]](uint16_t port) {
      leave_terminal(port);
      if (write(end, "+", 1) == 1) close(end);
    });
    std::exit(code);
  }
  close(ends[1]);
  char word = 0;
  ssize_t count = 0;
  while ((count = read(ends[0], &word, 1)) < 0 && errno == EINTR) {
  }
  close(ends[0]);
  if (count == 1) return 0;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace serving
