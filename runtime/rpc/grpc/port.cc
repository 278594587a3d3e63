#include "runtime/rpc/grpc/port.h"

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unordered_map>

#include "runtime/base/address.h"
#include "runtime/base/check.h"
#include "runtime/base/log.h"
#include "runtime/base/loop/event.h"
#include "runtime/base/loop/socket.h"
#include "runtime/base/text.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/listen.h"

namespace rayo::rpc {
namespace {

using absl::StatusCode;
using base::cat;
using base::failed;

constexpr int kPendingLimit = 1024;
constexpr int kPendingPerAddress = 256;
constexpr base::Duration kDecideLimit = std::chrono::seconds(2);
// A connection given to gRPC counts for as long as it may take to shake hands (server.cc cuts it then).
constexpr base::Duration kHandshakeCounts = std::chrono::seconds(2);

void set_option(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

}  // namespace

struct Port::State : std::enable_shared_from_this<State> {
  explicit State(base::Loop& owner) : loop(owner) {}
  base::Status listen(const base::Binding& binding);
  void serve(PortHandlers given);
  void accept_from(base::Acceptor& acceptor);
  bool admit(const std::string& host);
  void leave(const std::string& host);
  void decide(base::Fd fd, const std::string& host);

  base::Loop& loop;
  PortHandlers handlers;
  std::vector<std::unique_ptr<base::Acceptor>> acceptors;
  int port = 0;
  std::string address;
  std::vector<std::string> notes;
  std::unordered_map<std::string, int> by_host;
  int pending = 0;
  uint64_t refused = 0;
  bool serving = false;
  base::TaskGroup tasks;
};

base::Status Port::State::listen(const base::Binding& binding) {
  auto hosts = hosts_of(binding);
  auto listening = listen_on(hosts, binding.port);
  if (absl::IsAlreadyExists(listening.status())) {
    std::string taken = taken_text(binding.port);
    if (binding.port_fixed)
      return failed(StatusCode::kAlreadyExists, cat("cannot listen: ", taken),
                    "end that process, or choose another port (0: any free one)");
    listening = listen_on(hosts, 0);
    if (listening.ok()) notes.push_back(cat(taken, ": using ", listening->port));
  }
  if (!listening.ok()) return listening.status();
  port = listening->port;
  address = base::HostPort{binding.host, port}.text();
  if (!binding.advertise.empty()) {
    RAYO_ASSIGN_OR_RETURN(auto told, base::parse_host(binding.advertise, port));
    address = told.text();
  }
  for (auto& socket : listening->sockets)
    acceptors.push_back(std::make_unique<base::Acceptor>(loop, std::move(socket)));
  return absl::OkStatus();
}

void Port::State::serve(PortHandlers given) {
  RAYO_CHECK(!serving, "a port is served once");
  serving = true;
  handlers = std::move(given);
  for (auto& acceptor : acceptors) tasks.spawn("accept", [this, &acceptor = *acceptor] { accept_from(acceptor); });
}

void Port::State::accept_from(base::Acceptor& acceptor) {
  while (true) {
    auto fd = acceptor.accept(base::kForever);
    if (!fd.ok()) {
      if (!absl::IsCancelled(fd.status()) && !absl::IsUnavailable(fd.status()))
        base::log().error("port {}: {}", port, base::message(fd.status()));
      return;
    }
    set_option(fd->get(), IPPROTO_TCP, TCP_NODELAY, 1);
    auto from = peer_address(fd->get());
    if (!from.ok()) continue;  // gone already
    std::string host = from->host();
    if (!admit(host)) {
      base::reset_connection(std::move(*fd));
      continue;
    }
    tasks.spawn("decide", [this, host, fd = std::move(*fd)]() mutable { decide(std::move(fd), host); });
  }
}

bool Port::State::admit(const std::string& host) {
  bool loopback = host.starts_with("127.") || host == "::1";
  if (pending >= kPendingLimit || (!loopback && by_host[host] >= kPendingPerAddress)) {
    if (refused++ % 1000 == 0)
      base::log().warn("port {}: too many connections at once ({} pending): {} reset so far", port, pending, refused);
    return false;
  }
  ++pending;
  ++by_host[host];
  return true;
}

void Port::State::leave(const std::string& host) {
  --pending;
  if (--by_host[host] == 0) by_host.erase(host);
}

// The first bytes say whose the connection is. Who is not ours is told nothing.
void Port::State::decide(base::Fd fd, const std::string& host) {
  base::TimePoint deadline = loop.deadline(kDecideLimit);
  base::Stream stream(loop, std::move(fd));
  std::byte first{};
  auto seen = stream.peek({&first, 1}, deadline);
  if (seen.ok() && *seen == 1 && first == std::byte{kTlsFirstByte}) {
    loop.after(kHandshakeCounts, [state = shared_from_this(), host] { state->leave(host); }).release();
    handlers.tls(stream.release());
    return;
  }
  if (seen.ok() && *seen == 1 && first == std::byte{kDataMagic[0]}) {
    DataHeaderBytes header{};
    base::Status read = stream.read_exact(std::as_writable_bytes(std::span(header)), deadline);
    if (read.ok() && std::equal(kDataMagic.begin(), kDataMagic.end(), header.begin()))
      handlers.data(stream.release(), header);
  }
  leave(host);
}

base::StatusOr<std::unique_ptr<Port>> Port::open(base::Loop& loop, const base::Binding& binding,
                                                 PortHandlers handlers) {
  auto state = std::make_shared<State>(loop);
  RAYO_RETURN_IF_ERROR(state->listen(binding));
  auto port = std::unique_ptr<Port>(new Port(state));
  if (handlers.tls) state->serve(std::move(handlers));
  return port;
}

Port::Port(std::shared_ptr<State> state) : state_(std::move(state)) {}
Port::~Port() { close(); }

void Port::serve(PortHandlers handlers) { state_->serve(std::move(handlers)); }

void Port::close() {
  for (auto& acceptor : state_->acceptors) acceptor->close();
  state_->tasks.cancel();
  if (state_->tasks.size() == 0) return;
  base::Shield shield;
  state_->tasks.join();
}

int Port::port() const { return state_->port; }
const std::string& Port::address() const { return state_->address; }
const std::vector<std::string>& Port::notes() const { return state_->notes; }
int Port::pending() const { return state_->pending; }

// ---- LocalPort ----

struct LocalPort::State {
  std::unique_ptr<base::UnixListener> listener;
  std::function<void(base::Fd)> accept;
  base::TaskGroup tasks;
};

base::StatusOr<std::unique_ptr<LocalPort>> LocalPort::open(base::Loop& loop, const base::Path& path,
                                                           std::function<void(base::Fd)> accept) {
  auto state = std::make_shared<State>();
  RAYO_ASSIGN_OR_RETURN(state->listener, base::UnixListener::open(loop, path));
  state->accept = std::move(accept);
  state->tasks.spawn("accept local", [raw = state.get()] {
    while (true) {
      auto fd = raw->listener->accept_fd(base::kForever);
      if (!fd.ok()) return;
      raw->accept(std::move(*fd));
    }
  });
  return std::unique_ptr<LocalPort>(new LocalPort(std::move(state)));
}

LocalPort::LocalPort(std::shared_ptr<State> state) : state_(std::move(state)) {}
LocalPort::~LocalPort() { close(); }

void LocalPort::close() {
  state_->listener->close();
  state_->tasks.cancel();
  if (state_->tasks.size() == 0) return;
  base::Shield shield;
  state_->tasks.join();
}

}  // namespace rayo::rpc
