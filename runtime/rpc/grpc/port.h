// A node's one TCP port, and its unix control socket.
//
//   RAYO_ASSIGN_OR_RETURN(auto port, rpc::Port::open(loop, settings.bind, {.tls = ..., .data = ...}));
//   log().info("listening on {}", port->address());
//
// The first bytes decide, within 2 s: 0x16 (a TLS hello) goes to `tls` unread; kDataMagic: exactly 64 bytes
// are read and go to `data` with the socket; anything else is closed. At most 1,024 connections are undecided
// or shaking hands at a time, 256 from one address other than loopback; who comes over that is reset. A lack
// of descriptors turns callers away and ends by itself. The sockets are close-on-exec, non-blocking and have
// TCP_NODELAY.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/fd.h"
#include "runtime/base/loop/loop.h"
#include "runtime/base/session.h"
#include "runtime/base/status.h"
#include "runtime/rpc/data_header.h"

namespace rayo::rpc {

struct PortHandlers {
  std::function<void(base::Fd)> tls;                           // on the loop thread, must not wait: Server::accept_tls
  std::function<void(base::Fd, DataHeaderBytes header)> data;  // in a fiber
};

class Port {
 public:
  // Listens on binding.host, on binding.data_host where set, and on loopback (127.0.0.1, and ::1 for a v6
  // host), all with one port number. A port that is taken moves to a free one with a note, or with port_fixed
  // is an AlreadyExists error that names who holds it. In a fiber.
  // Without handlers it listens and lets who connects wait until serve().
  static base::StatusOr<std::unique_ptr<Port>> open(base::Loop& loop, const base::Binding& binding,
                                                    PortHandlers handlers = {});
  ~Port();  // close()
  void serve(PortHandlers handlers);
  // In a fiber; stops listening.
  void close();
  int port() const;
  // As told to others: binding.advertise where given, else HOST:PORT.
  const std::string& address() const;
  // Such as "port 6379 is taken by nginx (pid 12): using 6401".
  const std::vector<std::string>& notes() const;
  int pending() const;

 private:
  struct State;
  explicit Port(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// A unix control socket (0700 directory, own uid only): each connection goes to `accept`
// (Server::accept_local).
class LocalPort {
 public:
  static base::StatusOr<std::unique_ptr<LocalPort>> open(base::Loop& loop, const base::Path& path,
                                                         std::function<void(base::Fd)> accept);
  ~LocalPort();
  void close();

 private:
  struct State;
  explicit LocalPort(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace rayo::rpc
