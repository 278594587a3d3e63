#include "examples/llm_serving/printed.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace serving {
namespace {

int g_error = 0;  // errno of the first print() that failed

}  // namespace

void hold_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // For reading alone: what is printed fails as it would have on the closed one. The lowest free number is `fd`.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDONLY);
  }
}

void print(const char* format, ...) {
  va_list values;
  va_start(values, format);
  const bool out = std::vprintf(format, values) >= 0 && std::fflush(stdout) == 0;
  va_end(values);
  if (!out && g_error == 0) g_error = errno;
}

int printed(int code) {
  if (g_error == 0 || g_error == EPIPE || code != 0) return code;
  std::fprintf(stderr, "rayo: cannot print: %s\ntry: send the output elsewhere; what was done stays done\n",
               std::strerror(g_error));
  return 1;
}

}  // namespace serving
