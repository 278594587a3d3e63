#include "runtime/raylet/log_files.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <set>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "runtime/base/loop/event.h"
#include "runtime/base/loop/signals.h"
#include "runtime/base/text.h"
#include "runtime/raylet/verdict.h"

namespace rayo::raylet {
namespace {

using base::cat;

constexpr size_t kReadAtOnce = 256u << 10;  // bytes given on in one piece
constexpr size_t kLineLimit = 64u << 10;    // bytes of one line; longer ones are broken
constexpr size_t kTailBytes = 16u << 10;    // looked at for a death record

std::string pread_all(int fd, off_t from, size_t limit) {
  std::string bytes(limit, '\0');
  ssize_t got = ::pread(fd, bytes.data(), limit, from);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

off_t size_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_size : 0;
}

}  // namespace

std::string read_tail(const base::Path& file, size_t bytes) {
  base::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return {};
  off_t from = std::max<off_t>(0, info.st_size - static_cast<off_t>(bytes));
  return pread_all(fd.get(), from, bytes);
}

// The thread's own: which file was read how far, and how much all of them hold. From the loop come the names of files
// whose worker has ended; to it go lines, by the handler.
struct LogFiles::State {
  base::Loop& loop;
  base::Path folder;
  Handler handler;
  base::Fd inotify;
  base::Fd news;  // eventfd: `stop`, or names in `ended`
  std::thread thread;
  std::shared_ptr<int> alive = std::make_shared<int>(0);  // what waits on the loop looks whether we are

  std::mutex mutex;
  bool stop = false;
  std::vector<std::string> ended;
  std::vector<std::shared_ptr<base::Event>> behind;  // who waits until everything is read; set on the loop

  struct Reading {
    off_t at = 0;
    std::string rest;  // of a line that has not ended
  };
  std::map<std::string, Reading> readings;
  LogBudget budget;

  State(base::Loop& l, base::Path f, Handler h, LogLimits limits)
      : loop(l), folder(std::move(f)), handler(std::move(h)), budget(limits) {}

  void tell(const std::function<void()>& change) {
    {
      std::lock_guard hold(mutex);
      change();
    }
    uint64_t one = 1;
    (void)!::write(news.get(), &one, sizeof one);
  }

  void run() {
    base::block_signals_in_this_thread();
    pollfd waits[2] = {{inotify.get(), POLLIN, 0}, {news.get(), POLLIN, 0}};
    while (true) {
      if (::poll(waits, 2, -1) < 0 && errno != EINTR) return;
      std::vector<std::shared_ptr<base::Event>> caught_up;
      if (waits[1].revents && !take_news(caught_up)) return;
      read_changed();
      for (auto& event : caught_up) loop.post([event = std::move(event)] { event->set(); });
      keep_budget();
    }
  }

  // False: it is to stop.
  bool take_news(std::vector<std::shared_ptr<base::Event>>& behind_now) {
    uint64_t count = 0;
    (void)!::read(news.get(), &count, sizeof count);
    std::vector<std::string> names;
    {
      std::lock_guard hold(mutex);
      if (stop) return false;
      names = std::exchange(ended, {});
      behind_now = std::exchange(behind, {});
    }
    for (const std::string& name : names) {
      read_news(name);  // its last words, whose event may still wait
      budget.ended(name);
    }
    return true;
  }

  void read_changed() {
    alignas(inotify_event) char buffer[16384];
    ssize_t got = ::read(inotify.get(), buffer, sizeof buffer);
    std::set<std::string> changed;
    for (ssize_t at = 0; at < got;) {
      auto* event = reinterpret_cast<inotify_event*>(buffer + at);
      if (event->len > 0) changed.insert(event->name);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
    for (const std::string& name : changed) read_news(name);
  }

  void read_news(const std::string& name) {
    bool error = name.ends_with(".err");
    if (!error && !name.ends_with(".out")) return;
    auto process = ProcessId::from_hex(std::string_view(name).substr(0, name.size() - 4));
    base::Fd fd(::open((folder / name).c_str(), O_RDWR | O_CLOEXEC));
    if (!process) return;
    if (!fd) return forget(name);
    Reading& reading = readings[name];
    while (true) {
      std::string bytes = pread_all(fd.get(), reading.at, kReadAtOnce);
      if (bytes.empty()) break;
      reading.at += static_cast<off_t>(bytes.size());
      give(*process, error, reading, bytes);
      // A writer may be faster than we are: its file ends all the same.
      if (size_of(fd.get()) > 2 * budget.limits().file_bytes) cut(fd.get(), reading);
    }
    budget.size_is(name, size_of(fd.get()));
  }

  void forget(const std::string& name) {
    readings.erase(name);
    budget.gone(name);
  }

  void keep_budget() {
    auto verdict = budget.verdict();
    for (const std::string& name : verdict.remove) {
      ::unlink((folder / name).c_str());
      forget(name);
    }
    for (const std::string& name : verdict.cut) {
      base::Fd fd(::open((folder / name).c_str(), O_RDWR | O_CLOEXEC));
      if (!fd) {
        forget(name);
        continue;
      }
      cut(fd.get(), readings[name]);
      budget.size_is(name, size_of(fd.get()));
    }
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

  // The writer appends (O_APPEND), so it goes on behind what is put here. What of the kept end was not read yet will be.
  void cut(int fd, Reading& reading) {
    const off_t size = size_of(fd);
    const off_t from = std::max<off_t>(0, size - budget.limits().kept_at_cut);
    std::string kept = pread_all(fd, from, static_cast<size_t>(size - from));
    const std::string note = cat("[rayo: the first ", from, " bytes of this file were cut]\n");
    kept.insert(0, note);
    if (::ftruncate(fd, 0) != 0) return;
    ssize_t written = ::pwrite(fd, kept.data(), kept.size(), 0);
    reading.at = std::clamp<off_t>(reading.at - from, 0, size - from) + static_cast<off_t>(note.size());
    reading.at = std::min<off_t>(reading.at, std::max<ssize_t>(0, written));
  }
};

LogFiles::LogFiles(base::Loop& loop, base::Path folder, Handler handler, LogLimits limits)
    : state_(std::make_unique<State>(loop, std::move(folder), std::move(handler), limits)) {}

LogFiles::~LogFiles() {
  if (!state_->thread.joinable()) return;
  state_->tell([this] { state_->stop = true; });
  state_->thread.join();
}

base::Status LogFiles::start() {
  RAYO_RETURN_IF_ERROR(base::make_private_dir(state_->folder));
  state_->inotify = base::Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  state_->news = base::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state_->inotify || !state_->news)
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
    state_->tell([&] { state_->ended.push_back(file.filename()); });
  }
}

void LogFiles::catch_up(base::TimePoint deadline) {
  auto caught_up = std::make_shared<base::Event>();
  state_->tell([&] { state_->behind.push_back(caught_up); });
  caught_up->wait(deadline);
}

std::vector<std::string> LogFiles::tail(ProcessId process, size_t lines) const {
  auto last = last_lines(read_tail(path(process, true), kTailBytes), lines);
  return last.empty() ? last_lines(read_tail(path(process, false), kTailBytes), lines) : last;
}

}  // namespace rayo::raylet
