// Stream of socket.h: reads and writes that do not block, and descriptors that travel along.
#include <boost/asio.hpp>
#include <deque>
#include <sys/socket.h>
#include <sys/uio.h>

#include "runtime/base/loop/event.h"
#include "runtime/base/loop/fd_watch.h"
#include "runtime/base/loop/socket.h"
#include "runtime/base/text.h"

namespace rayo::base {
namespace {

constexpr size_t kDescriptorsPerMessage = 16;
constexpr size_t kDescriptorsWaiting = 256;  // received and not taken: more is no protocol of ours
constexpr size_t kPiecesPerSend = 64;
constexpr int kReadsPerTurn = 32;  // that found data at once; then other fibers get their turn

Status closed_error(std::string_view why) { return failed(absl::StatusCode::kUnavailable, cat("connection ", why)); }

}  // namespace

struct Stream::State : std::enable_shared_from_this<State> {
  struct Message {
    std::string bytes;
    std::vector<Fd> descriptors;
    size_t sent = 0;
    uint64_t number = 0;
  };

  State(Loop& owner, Fd fd) : loop(owner), watch(owner, std::move(fd)) {}
  StatusOr<size_t> receive(std::span<std::byte> out, int flags);
  StatusOr<size_t> read(std::span<std::byte> out, int flags, TimePoint deadline);
  Status keep_descriptors(msghdr& header);
  void pump();
  ssize_t send_front();
  void finish_sent(size_t bytes);
  void fail(Status why);

  Loop& loop;
  FdWatch watch;
  Status broken = absl::OkStatus();  // once set, nothing is read or written any more
  std::deque<Fd> received;
  int reads_in_turn = 0;
  std::deque<Message> queue;
  size_t backlog = 0;
  uint64_t last_queued = 0;
  uint64_t last_sent = 0;
  bool waits_for_room = false;
  WaitList progress;  // of the queue
};

// ---- reading ----

Status Stream::State::keep_descriptors(msghdr& header) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      received.emplace_back(fd);
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0)
    return closed_error("broken: descriptors were lost, too many in a message or no room for them here");
  if (received.size() > kDescriptorsWaiting) return closed_error("broken: more descriptors than anybody asked for");
  return absl::OkStatus();
}

// One recvmsg; kDeadlineExceeded stands for "nothing there yet".
StatusOr<size_t> Stream::State::receive(std::span<std::byte> out, int flags) {
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsPerMessage * sizeof(int))];
  iovec piece{out.data(), out.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t count = 0;
  do {
    count = ::recvmsg(watch.fd(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT | flags);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) {
    RAYO_RETURN_IF_ERROR(keep_descriptors(header));
    return static_cast<size_t>(count);
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return absl::DeadlineExceededError("");
  if (errno == ECONNRESET) return closed_error("reset by the peer");
  return failed(absl::StatusCode::kUnavailable, message(failed_errno(errno, "connection broken")));
}

StatusOr<size_t> Stream::State::read(std::span<std::byte> out, int flags, TimePoint deadline) {
  while (true) {
    if (!broken.ok()) return broken;
    if (fiber_cancelled()) return absl::CancelledError("cancelled");
    auto count = receive(out, flags);
    if (count.ok()) {
      if (++reads_in_turn % kReadsPerTurn == 0) yield_fiber();
      return count;
    }
    if (!absl::IsDeadlineExceeded(count.status())) {
      fail(count.status());
      return count;
    }
    reads_in_turn = 0;
    if (Status ready = watch.wait_readable(deadline); !ready.ok()) return broken.ok() ? ready : broken;
  }
}

StatusOr<size_t> Stream::read_some(std::span<std::byte> out, TimePoint deadline) {
  auto state = state_;  // the stream may be closed and go while this fiber waits
  return state->read(out, 0, deadline);
}

StatusOr<size_t> Stream::peek(std::span<std::byte> out, TimePoint deadline) {
  auto state = state_;
  return state->read(out, MSG_PEEK, deadline);
}

Status Stream::read_exact(std::span<std::byte> out, TimePoint deadline) {
  while (!out.empty()) {
    auto count = read_some(out, deadline);
    if (!count.ok()) return count.status();
    if (*count == 0) return closed_error("closed by the peer");
    out = out.subspan(*count);
  }
  return absl::OkStatus();
}

StatusOr<std::vector<Fd>> Stream::take_descriptors(size_t count) {
  auto& received = state_->received;
  if (received.size() < count)
    return failed(absl::StatusCode::kInvalidArgument,
                  cat("a message should bring ", count, " descriptors and ", received.size(), " came"));
  std::vector<Fd> taken(std::make_move_iterator(received.begin()),
                        std::make_move_iterator(received.begin() + static_cast<ptrdiff_t>(count)));
  received.erase(received.begin(), received.begin() + static_cast<ptrdiff_t>(count));
  return taken;
}

size_t Stream::descriptors() const { return state_->received.size(); }

// ---- writing ----

// One sendmsg from the front of the queue. Descriptors go with the first byte of their own message, so a
// message that has some is never behind another in the same call.
ssize_t Stream::State::send_front() {
  iovec pieces[kPiecesPerSend];
  size_t count = 0;
  for (auto& message : queue) {
    if (count == kPiecesPerSend || (count > 0 && !message.descriptors.empty())) break;
    pieces[count++] = {message.bytes.data() + message.sent, message.bytes.size() - message.sent};
  }
  msghdr header{};
  header.msg_iov = pieces;
  header.msg_iovlen = count;
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsPerMessage * sizeof(int))]{};
  auto& descriptors = queue.front().descriptors;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    for (size_t i = 0; i < descriptors.size(); ++i) {
      int fd = descriptors[i].get();
      std::memcpy(CMSG_DATA(part) + i * sizeof(int), &fd, sizeof fd);
    }
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(watch.fd(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

void Stream::State::finish_sent(size_t bytes) {
  backlog -= bytes;
  queue.front().descriptors.clear();
  while (!queue.empty()) {
    auto& front = queue.front();
    size_t part = std::min(bytes, front.bytes.size() - front.sent);
    front.sent += part;
    bytes -= part;
    if (front.sent < front.bytes.size()) break;
    last_sent = front.number;
    queue.pop_front();
    if (bytes == 0) break;
  }
  progress.notify_all();
}

// Sends until the queue is empty or the kernel is full; then goes on by itself when there is room.
void Stream::State::pump() {
  while (!queue.empty() && broken.ok() && !waits_for_room) {
    ssize_t sent = send_front();
    if (sent >= 0) {
      finish_sent(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      waits_for_room = true;
      watch.when_writable([state = weak_from_this()] {
        auto self = state.lock();
        if (!self) return;
        self->waits_for_room = false;
        self->pump();
      });
    } else {
      int error = errno;
      fail(error == EPIPE || error == ECONNRESET
               ? closed_error("closed by the peer")
               : failed(absl::StatusCode::kUnavailable, message(failed_errno(error, "connection broken"))));
    }
  }
}

void Stream::State::fail(Status why) {
  if (!broken.ok()) return;
  broken = std::move(why);
  queue.clear();
  backlog = 0;
  progress.notify_all();
  watch.interrupt();
}

bool Stream::send(std::string message, std::vector<Fd> descriptors) {
  if (!state_->broken.ok() || message.empty() || descriptors.size() > kDescriptorsPerMessage) return false;
  state_->backlog += message.size();
  state_->queue.push_back({std::move(message), std::move(descriptors), 0, ++state_->last_queued});
  state_->pump();
  return state_->broken.ok();
}

Status Stream::write(std::string message, std::vector<Fd> descriptors, TimePoint deadline) {
  auto state = state_;
  if (message.empty() || descriptors.size() > kDescriptorsPerMessage)
    return failed(absl::StatusCode::kInvalidArgument, "a message has at least one byte and at most 16 descriptors");
  if (!send(std::move(message), std::move(descriptors))) return state->broken;
  uint64_t number = state->last_queued;
  while (state->broken.ok() && state->last_sent < number) {
    if (state->progress.wait(deadline)) continue;
    if (!state->broken.ok() || state->last_sent >= number) break;
    auto late = std::find_if(state->queue.begin(), state->queue.end(),
                             [number](const State::Message& queued) { return queued.number == number; });
    Status why =
        fiber_cancelled() ? absl::CancelledError("cancelled") : absl::DeadlineExceededError("the peer does not read");
    if (late->sent > 0) {
      state->fail(closed_error("broken: a message was cut in its middle at its deadline"));
    } else {
      state->backlog -= late->bytes.size();
      state->queue.erase(late);
    }
    return why;
  }
  return state->last_sent >= number ? absl::OkStatus() : state->broken;
}

size_t Stream::backlog() const { return state_->backlog; }

Status Stream::drain(TimePoint deadline) {
  auto state = state_;
  while (state->broken.ok() && !state->queue.empty())
    if (!state->progress.wait(deadline) && !state->queue.empty())
      return absl::DeadlineExceededError("the peer does not read");
  return state->broken;
}

// ---- the rest ----

Stream::Stream(Loop& loop, Fd fd) : state_(std::make_shared<State>(loop, std::move(fd))) {}
Stream::~Stream() { close(); }

void Stream::close() {
  state_->fail(closed_error("closed"));
  state_->watch.close();
}

bool Stream::closed() const { return !state_->broken.ok(); }

StatusOr<PeerCredentials> Stream::peer() const { return peer_credentials(fd()); }

int Stream::fd() const { return state_->watch.fd(); }

Fd Stream::release() {
  state_->fail(closed_error("given away"));
  return state_->watch.release();
}

}  // namespace rayo::base
