#include "runtime/worker/log_printer.h"

#include <cstdio>
#include <unistd.h>

#include "runtime/base/signals_blocked.h"
#include "runtime/base/text.h"

namespace rayo::worker {

namespace {
void write_all(int fd, const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t done = ::write(fd, text.data() + at, text.size() - at);
    if (done <= 0 && errno != EINTR) return;
    if (done > 0) at += static_cast<size_t>(done);
  }
}
}  // namespace

void LogPrinter::end() {
  {
    std::lock_guard hold(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void LogPrinter::print(const proto::LogLines& lines) {
  std::lock_guard hold(mutex_);
  const base::TimePoint now = base::system_clock().now();
  std::string text;
  const std::string prefix = base::cat("(", lines.source(), " pid=", lines.pid(), ", node=", lines.node(), ") ");
  for (const std::string& whole : lines.lines()) {
    const std::string line(last_state(whole));
    if (folder_.take({lines.source(), line, lines.error()}, lines.pid(), now))
      base::append(text, base::cat(prefix, line, "\n"));
  }
  if (lines.dropped() > 0)
    base::append(text, base::cat(prefix, "... ", lines.dropped(), " lines more were left out\n"));
  add(lines.error(), text);
}

void LogPrinter::print(const proto::Notice& notice) {
  std::lock_guard hold(mutex_);
  add(true, base::cat("rayo: ", notice.text(), "\n"));
}

void LogPrinter::add_folded(base::TimePoint now) {
  for (const LineFolder::Folded& folded : folder_.due(now))
    base::append(pending_[folded.line.error],
                 base::cat("(", folded.line.source, ") ", folded.line.text, " [", folded.times, " more said so]\n"));
}

void LogPrinter::add(bool error, const std::string& text) {
  if (ending_) return;
  if (pending_[error].size() + text.size() > kPending) {
    dropped_ += static_cast<int64_t>(text.size());
    return;
  }
  pending_[error] += text;
  if (!thread_.joinable()) {
    const base::SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }
  changed_.notify_one();
}

void LogPrinter::run() {
  std::unique_lock hold(mutex_);
  while (true) {
    add_folded(ending_ ? base::kForever : base::system_clock().now());
    if (!ending_ && pending_[0].empty() && pending_[1].empty()) {
      const base::TimePoint next = folder_.next_due();
      next == base::kForever ? changed_.wait(hold)
                             : static_cast<void>(changed_.wait_for(hold, next - base::system_clock().now()));
      continue;
    }
    std::string out = std::exchange(pending_[0], {});
    std::string error = std::exchange(pending_[1], {});
    if (const int64_t dropped = std::exchange(dropped_, 0); dropped > 0)
      base::append(error, base::cat("rayo: ", dropped, " bytes of output of workers were left out\n"));
    if (out.empty() && error.empty() && ending_) return;
    hold.unlock();
    std::fflush(stdout);  // so that lines of this program and of its workers stand in their order
    write_all(STDOUT_FILENO, out);
    write_all(STDERR_FILENO, error);
    hold.lock();
  }
}

}  // namespace rayo::worker
