// Acceptor and UnixListener of socket.h.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "runtime/base/log.h"
#include "runtime/base/loop/fd_watch.h"
#include "runtime/base/loop/socket.h"
#include "runtime/base/text.h"

namespace rayo::base {
namespace {

constexpr Duration kRetryWithoutSpare = std::chrono::milliseconds(20);
constexpr Duration kLookAtPathEvery = std::chrono::seconds(2);
constexpr int kBacklog = 1024;
constexpr int kAcceptsPerTurn = 32;

Fd open_spare() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// A socket address of a path of any length: a long one goes through a descriptor of its directory, held
// meanwhile.
struct UnixAddress {
  sockaddr_un address{};
  Fd directory;
};

StatusOr<UnixAddress> unix_address(const Path& path) {
  UnixAddress out;
  out.address.sun_family = AF_UNIX;
  std::string text = path.string();
  if (text.size() >= sizeof out.address.sun_path) {
    out.directory = Fd(::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!out.directory) return failed_errno(errno, cat("cannot open ", path.parent_path().string()));
    text = cat("/proc/self/fd/", out.directory.get(), "/", path.filename().string());
  }
  if (text.size() >= sizeof out.address.sun_path)
    return failed(absl::StatusCode::kInvalidArgument, cat("the name of the socket is too long: ", path.string()));
  std::memcpy(out.address.sun_path, text.c_str(), text.size() + 1);
  return out;
}

StatusOr<Fd> unix_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return failed_errno(errno, "cannot make a unix socket");
  return fd;
}

StatusOr<Fd> bind_unix(const Path& path) {
  RAYO_RETURN_IF_ERROR(make_private_dir(path.parent_path()));
  if (connect_unix(path).ok())
    return failed(absl::StatusCode::kAlreadyExists, cat("another process listens at ", path.string()));
  ::unlink(path.c_str());
  RAYO_ASSIGN_OR_RETURN(UnixAddress address, unix_address(path));
  RAYO_ASSIGN_OR_RETURN(Fd fd, unix_socket());
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address.address), sizeof address.address) != 0 ||
      ::listen(fd.get(), kBacklog) != 0)
    return failed_errno(errno, cat("cannot listen at ", path.string()));
  return fd;
}

}  // namespace

// ---- Acceptor ----

struct Acceptor::State {
  State(Loop& owner, Fd fd) : loop(owner), watch(owner, std::move(fd)), spare(open_spare()) {}
  Status make_room(TimePoint deadline);

  Loop& loop;
  FdWatch watch;
  Fd spare;
  int accepts_in_turn = 0;
  uint64_t turned_away = 0;
};

// No descriptor is left: in the spare one's place the next caller is accepted and reset, so that it does not
// hang in the backlog. The kernel says EMFILE before it looks whether anybody calls: then this waits for a
// caller.
Status Acceptor::State::make_room(TimePoint deadline) {
  spare.reset();
  Fd unlucky(::accept4(watch.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  int error = unlucky ? 0 : errno;
  reset_connection(std::move(unlucky));
  spare = open_spare();
  if (error == EAGAIN) return watch.wait_readable(deadline);
  if (error != 0) {  // another thread took the place
    sleep_for(kRetryWithoutSpare);
    return absl::OkStatus();
  }
  if (turned_away++ % 100 == 0) log().warn("no file descriptors left: {} connections turned away so far", turned_away);
  yield_fiber();
  return absl::OkStatus();
}

Acceptor::Acceptor(Loop& loop, Fd listening) : state_(std::make_shared<State>(loop, std::move(listening))) {}
Acceptor::~Acceptor() { close(); }

StatusOr<Fd> Acceptor::accept(TimePoint deadline) {
  auto state = state_;
  while (true) {
    if (fiber_cancelled()) return absl::CancelledError("cancelled");
    if (state->watch.fd() < 0) return failed(absl::StatusCode::kUnavailable, "the listening socket is closed");
    Fd fd(::accept4(state->watch.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      if (++state->accepts_in_turn % kAcceptsPerTurn == 0) yield_fiber();
      return fd;
    }
    switch (errno) {
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        if (Status room = state->make_room(deadline); !room.ok()) return room;
        break;
      case EAGAIN:
        if (Status ready = state->watch.wait_readable(deadline); !ready.ok()) return ready;
        break;
      case EBADF:
      case EINVAL:
        return failed_errno(errno, "the listening socket is gone");
      default:
        break;  // that one connection is gone already: the next
    }
  }
}

void Acceptor::close() { state_->watch.close(); }
int Acceptor::fd() const { return state_->watch.fd(); }

void reset_connection(Fd fd) {
  if (!fd) return;
  linger at_once{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

// ---- unix sockets ----

StatusOr<PeerCredentials> peer_credentials(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return failed_errno(errno, "cannot tell who is at the other end of a socket");
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

StatusOr<Fd> connect_unix(const Path& path) {
  RAYO_ASSIGN_OR_RETURN(UnixAddress address, unix_address(path));
  RAYO_ASSIGN_OR_RETURN(Fd fd, unix_socket());
  int result = 0;
  do {
    result = ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address.address), sizeof address.address);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return fd;
  return failed(absl::StatusCode::kUnavailable, message(failed_errno(errno, cat("cannot connect to ", path.string()))));
}

UnixListener::UnixListener(Loop& loop, Path path, Fd fd)
    : loop_(loop), path_(std::move(path)), acceptor_(std::make_unique<Acceptor>(loop, std::move(fd))) {
  inode_ = path_inode();
}

UnixListener::~UnixListener() { close(); }

uint64_t UnixListener::path_inode() const {
  struct stat info {};
  return ::stat(path_.c_str(), &info) == 0 ? info.st_ino : 0;
}

StatusOr<std::unique_ptr<UnixListener>> UnixListener::open(Loop& loop, const Path& path) {
  RAYO_ASSIGN_OR_RETURN(Fd fd, bind_unix(path));
  return std::unique_ptr<UnixListener>(new UnixListener(loop, path, std::move(fd)));
}

void UnixListener::bind_again_where_removed() {
  if (path_inode() == inode_) return;
  auto fd = bind_unix(path_);
  if (!fd.ok()) {
    log().warn("the socket {} is gone and cannot be made again: {}", path_.string(), message(fd.status()));
    return;
  }
  log().warn("the socket {} was removed: it is there again", path_.string());
  acceptor_ = std::make_unique<Acceptor>(loop_, std::move(*fd));
  inode_ = path_inode();
}

StatusOr<Fd> UnixListener::accept_fd(TimePoint deadline) {
  while (true) {
    auto fd = acceptor_->accept(std::min(deadline, loop_.deadline(kLookAtPathEvery)));
    if (absl::IsDeadlineExceeded(fd.status()) && loop_.now() < deadline) {
      bind_again_where_removed();
      continue;
    }
    if (!fd.ok()) return fd;
    auto who = peer_credentials(fd->get());
    if (who.ok() && (who->uid == ::geteuid() || who->uid == 0)) return fd;
    log().warn("a process of user {} was turned away at {}", who.ok() ? who->uid : 0, path_.string());
  }
}

StatusOr<std::unique_ptr<Stream>> UnixListener::accept(TimePoint deadline) {
  RAYO_ASSIGN_OR_RETURN(Fd fd, accept_fd(deadline));
  return std::make_unique<Stream>(loop_, std::move(fd));
}

void UnixListener::close() {
  if (acceptor_->fd() < 0) return;
  acceptor_->close();
  if (path_inode() == inode_) ::unlink(path_.c_str());
}

}  // namespace rayo::base
