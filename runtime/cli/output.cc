#include "runtime/cli/output.h"

#include <cerrno>
#include <unistd.h>

#include "runtime/base/status.h"

namespace rayo::cli {

Output::Output(int fd) : fd_(fd) { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

int Output::finish(int code, Terminal& terminal) {
  terminal.out().flush();
  if (error_ == 0 || error_ == EPIPE || code != kDone) return code;
  return terminal.fail(
      base::failed_errno(error_, "cannot print", "send the output elsewhere; what was done stays done"), kFailed);
}

Output::int_type Output::overflow(int_type next) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(next, traits_type::eof())) sputc(traits_type::to_char_type(next));
  return traits_type::not_eof(next);
}

int Output::sync() {
  for (char* from = pbase(); error_ == 0 && from < pptr();) {
    ssize_t written = write(fd_, from, static_cast<size_t>(pptr() - from));
    if (written >= 0) {
      from += written;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0 ? 0 : -1;
}

}  // namespace rayo::cli
