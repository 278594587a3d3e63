#include "runtime/base/open_files.h"

#include <cerrno>
#include <fcntl.h>

namespace rayo::base {

rlimit open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

rlimit raise_open_files() {
  const rlimit before = open_files();
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);  // to the hard limit: nobody is refused that
  return before;
}

void hold_standard_descriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // For reading alone: what is printed fails as it would have on the closed one. The lowest free number is `fd`.
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDONLY);
  }
}

StatusOr<Fd> duplicate(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return failed_errno(errno, "cannot copy a descriptor");
  return copy;
}

}  // namespace rayo::base
