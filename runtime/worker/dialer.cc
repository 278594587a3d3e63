#include "runtime/worker/dialer.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "runtime/base/address.h"
#include "runtime/base/signals_blocked.h"
#include "runtime/base/text.h"
#include "runtime/rpc/dial.h"

namespace rayo::worker {

namespace {
constexpr base::Duration kDialTimeout = std::chrono::seconds(5);  // for all addresses of a name together

base::TimePoint now() { return base::system_clock().now(); }
}  // namespace

struct Dialer::Attempt {
  std::string host_port;
  rpc::DataHeaderBytes first;
  Done done;  // empty: answered
  base::TimePoint deadline;
  std::vector<rpc::SocketAddress> addresses;
  size_t tried = 0;           // addresses[tried - 1] is being tried
  base::TimePoint give_up{};  // on that one
  base::Fd socket;
  base::Status last;
};

struct Dialer::Answer : Posted {
  std::shared_ptr<std::atomic<bool>> ended;
  Done done;
  base::StatusOr<base::Fd> socket = base::Fd();
};

Dialer::Dialer(Engine& engine) : engine_(engine) {}

Dialer::~Dialer() { end(); }

void Dialer::dial(std::string host_port, const rpc::DataHeaderBytes& first, Done done) {
  auto attempt = std::make_unique<Attempt>();
  attempt->host_port = std::move(host_port);
  attempt->first = first;
  attempt->done = std::move(done);
  attempt->deadline = base::deadline_after(now(), kDialTimeout);
  if (base::Status started = start(); !started.ok()) return answer(*attempt, std::move(started));
  {
    std::lock_guard hold(mutex_);
    asked_.push_back(std::move(attempt));
  }
  ::eventfd_write(wake_.get(), 1);
}

base::Status Dialer::start() {
  if (thread_.joinable()) return absl::OkStatus();
  wake_ = base::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return base::failed_errno(errno, "cannot connect to another node");
  const base::SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return base::failed_errno(error.code().value(), "cannot start the thread that connects to other nodes");
  }
  pthread_setname_np(thread_.native_handle(), "rayo-dial");
  return absl::OkStatus();
}

void Dialer::end() {
  ended_->store(true);
  {
    std::lock_guard hold(mutex_);
    ending_ = true;
  }
  if (!thread_.joinable()) return;
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void Dialer::run() {
  Attempts under_way;
  while (true) {
    Attempts fresh;
    {
      std::lock_guard hold(mutex_);
      if (ending_) return;
      fresh = std::exchange(asked_, {});
    }
    for (auto& attempt : fresh) {
      begin(*attempt);
      under_way.push_back(std::move(attempt));
    }
    std::erase_if(under_way, [](const auto& attempt) { return !attempt->done; });
    wait(under_way);
  }
}

void Dialer::begin(Attempt& attempt) {
  auto target = base::parse_host_port(attempt.host_port);
  if (!target.ok()) return answer(attempt, target.status());
  auto found = rpc::resolve(*target);
  if (!found.ok()) return answer(attempt, found.status());
  attempt.addresses = std::move(*found);
  try_next(attempt);
}

// An address that swallows everything must leave time for the next one.
void Dialer::try_next(Attempt& attempt) {
  while (attempt.tried < attempt.addresses.size()) {
    const base::TimePoint at = now();
    if (at >= attempt.deadline) break;
    const auto left = static_cast<int64_t>(attempt.addresses.size() - attempt.tried);
    attempt.give_up = at + (attempt.deadline - at) / left;
    auto socket = rpc::start_connect(attempt.addresses[attempt.tried++]);
    if (socket.ok()) {
      attempt.socket = std::move(*socket);
      return;
    }
    attempt.last = socket.status();
  }
  if (attempt.last.ok()) attempt.last = rpc::connect_error(ETIMEDOUT, attempt.host_port);  // the look-up took it all
  answer(attempt, attempt.last);
}

void Dialer::look_at(Attempt& attempt, bool writable) {
  const rpc::SocketAddress& address = attempt.addresses[attempt.tried - 1];
  if (writable) {
    attempt.last = rpc::finish_connect(attempt.socket.get(), address);
    if (!attempt.last.ok()) return try_next(attempt);
    const auto size = static_cast<ssize_t>(attempt.first.size());
    if (::send(attempt.socket.get(), attempt.first.data(), attempt.first.size(), MSG_NOSIGNAL) == size)
      return answer(attempt, std::move(attempt.socket));
    return answer(attempt, base::failed(absl::StatusCode::kUnavailable,
                                        base::cat("the connection to ", attempt.host_port, " broke")));
  }
  if (now() < attempt.give_up) return;
  attempt.last = rpc::connect_error(ETIMEDOUT, address.text());
  try_next(attempt);
}

void Dialer::answer(Attempt& attempt, base::StatusOr<base::Fd> socket) {
  auto* told = new Answer;
  told->ended = ended_;
  told->done = std::exchange(attempt.done, nullptr);
  told->socket = std::move(socket);
  told->run = [](Posted* posted) {
    std::unique_ptr<Answer> own(static_cast<Answer*>(posted));
    if (!own->ended->load()) own->done(std::move(own->socket));
  };
  engine_.post(told);
}

// Until one of them gets on, the next one's time is over, or there is something new.
void Dialer::wait(Attempts& under_way) {
  std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}};
  base::TimePoint next = base::kForever;
  for (const auto& attempt : under_way) {
    fds.push_back({attempt->socket.get(), POLLOUT, 0});
    next = std::min(next, attempt->give_up);
  }
  const base::Duration left = next == base::kForever ? base::Duration(0) : std::max(next - now(), base::Duration(0));
  const timespec span{left.count() / 1'000'000'000, static_cast<long>(left.count() % 1'000'000'000)};
  if (::ppoll(fds.data(), fds.size(), next == base::kForever ? nullptr : &span, nullptr) < 0) return;
  eventfd_t count = 0;
  if (fds[0].revents != 0) ::eventfd_read(wake_.get(), &count);
  for (size_t i = 0; i < under_way.size(); ++i) look_at(*under_way[i], fds[i + 1].revents != 0);
}

}  // namespace rayo::worker
