#include "runtime/raylet/log_files.h"

#include <cerrno>
#include <fcntl.h>
#include <map>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "runtime/base/loop/signals.h"
#include "runtime/base/text.h"
#include "runtime/raylet/verdict.h"

namespace rayo::raylet {
namespace {

using base::cat;

constexpr off_t kFileLimit = 64LL << 20;    // bytes of one file: beyond, its older part goes
constexpr size_t kKeptAtCut = 1u << 20;     // bytes of the end that stay
constexpr size_t kReadAtOnce = 256u << 10;  // bytes given on in one piece
constexpr size_t kLineLimit = 64u << 10;    // bytes of one line; longer ones are broken
constexpr size_t kTailBytes = 16u << 10;    // looked at for a death record

std::string pread_all(int fd, off_t from, size_t limit) {
  std::string bytes(limit, '\0');
  ssize_t got = ::pread(fd, bytes.data(), limit, from);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

}  // namespace

std::string read_tail(const base::Path& file, size_t bytes) {
  base::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return {};
  off_t from = std::max<off_t>(0, info.st_size - static_cast<off_t>(bytes));
  return pread_all(fd.get(), from, bytes);
}

// The thread's own: which file was read how far. Nothing here is shared but the handler, which is called on
// the loop.
struct LogFiles::State {
  base::Loop& loop;
  base::Path folder;
  Handler handler;
  base::Fd inotify;
  base::Fd stop;
  std::thread thread;
  std::shared_ptr<int> alive = std::make_shared<int>(0);  // what waits on the loop looks whether we are

  struct Reading {
    off_t at = 0;
    std::string rest;  // of a line that has not ended
  };
  std::map<std::string, Reading> readings;

  State(base::Loop& l, base::Path f, Handler h) : loop(l), folder(std::move(f)), handler(std::move(h)) {}

  void run() {
    base::block_signals_in_this_thread();
    pollfd waits[2] = {{inotify.get(), POLLIN, 0}, {stop.get(), POLLIN, 0}};
    while (true) {
      if (::poll(waits, 2, -1) < 0 && errno != EINTR) return;
      if (waits[1].revents) return;
      alignas(inotify_event) char buffer[16384];
      ssize_t got = ::read(inotify.get(), buffer, sizeof buffer);
      std::map<std::string, bool> changed;
      for (ssize_t at = 0; at < got;) {
        auto* event = reinterpret_cast<inotify_event*>(buffer + at);
        if (event->len > 0) changed[event->name] = true;
        if (event->mask & IN_DELETE) readings.erase(event->name);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
      for (const auto& [name, yes] : changed) read_news(name);
    }
  }

  void read_news(const std::string& name) {
    bool error = name.ends_with(".err");
    if (!error && !name.ends_with(".out")) return;
    auto process = ProcessId::from_hex(std::string_view(name).substr(0, name.size() - 4));
    base::Fd fd(::open((folder / name).c_str(), O_RDWR | O_CLOEXEC));
    if (!process || !fd) return;
    Reading& reading = readings[name];
    while (true) {
      std::string bytes = pread_all(fd.get(), reading.at, kReadAtOnce);
      if (bytes.empty()) break;
      reading.at += static_cast<off_t>(bytes.size());
      give(*process, error, reading, bytes);
    }
    if (reading.at > kFileLimit) cut(fd.get(), reading);
  }

  void give(ProcessId process, bool error, Reading& reading, const std::string& bytes) {
    PrintedLines printed{process, error, {}};
    reading.rest += bytes;
    size_t start = 0;
    for (size_t end; (end = reading.rest.find('\n', start)) != std::string::npos; start = end + 1)
      printed.lines.push_back(reading.rest.substr(start, end - start));
    reading.rest.erase(0, start);
    if (reading.rest.size() > kLineLimit) {
      printed.lines.push_back(std::move(reading.rest));
      reading.rest.clear();
    }
    if (printed.lines.empty()) return;
    loop.defer([this, here = std::weak_ptr(alive), printed = std::move(printed)]() mutable {
      if (!here.expired()) handler(std::move(printed));
    });
  }

  // The writer appends (O_APPEND), so it goes on behind what is put here.
  void cut(int fd, Reading& reading) {
    std::string kept = pread_all(fd, reading.at - static_cast<off_t>(kKeptAtCut), kKeptAtCut);
    std::string note =
        cat("[rayo: the first ", reading.at - static_cast<off_t>(kept.size()), " bytes of this file were cut]\n");
    kept.insert(0, note);
    if (::ftruncate(fd, 0) != 0) return;
    ssize_t written = ::pwrite(fd, kept.data(), kept.size(), 0);
    reading.at = std::max<ssize_t>(0, written);
  }
};

LogFiles::LogFiles(base::Loop& loop, base::Path folder, Handler handler)
    : state_(std::make_unique<State>(loop, std::move(folder), std::move(handler))) {}

LogFiles::~LogFiles() {
  if (!state_->thread.joinable()) return;
  uint64_t one = 1;
  if (::write(state_->stop.get(), &one, sizeof one) == sizeof one) state_->thread.join();
}

base::Status LogFiles::start() {
  RAYO_RETURN_IF_ERROR(base::make_private_dir(state_->folder));
  state_->inotify = base::Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  state_->stop = base::Fd(::eventfd(0, EFD_CLOEXEC));
  if (!state_->inotify || !state_->stop)
    return base::failed_errno(errno, "cannot watch the workers' output", "is fs.inotify.max_user_instances used up?");
  if (::inotify_add_watch(state_->inotify.get(), state_->folder.c_str(), IN_MODIFY | IN_DELETE) < 0)
    return base::failed_errno(errno, cat("cannot watch ", state_->folder.string()),
                              "is fs.inotify.max_user_watches used up?");
  state_->thread = std::thread([this] { state_->run(); });
  return absl::OkStatus();
}

base::Path LogFiles::path(ProcessId process, bool error) const {
  return state_->folder / cat(process.hex(), error ? ".err" : ".out");
}

base::StatusOr<LogFiles::Pair> LogFiles::open(ProcessId process) {
  Pair pair;
  for (bool error : {false, true}) {
    base::Path file = path(process, error);
    base::Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!fd) return base::failed_errno(errno, cat("cannot write ", file.string()));
    (error ? pair.error : pair.out) = std::move(fd);
  }
  return pair;
}

void LogFiles::ended(ProcessId process) {
  for (bool error : {false, true}) {
    struct stat info {};
    base::Path file = path(process, error);
    if (::stat(file.c_str(), &info) == 0 && info.st_size == 0) ::unlink(file.c_str());
  }
}

std::vector<std::string> LogFiles::tail(ProcessId process, size_t lines) const {
  auto last = last_lines(read_tail(path(process, true), kTailBytes), lines);
  return last.empty() ? last_lines(read_tail(path(process, false), kTailBytes), lines) : last;
}

}  // namespace rayo::raylet
