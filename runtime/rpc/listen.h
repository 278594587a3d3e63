// Listening TCP sockets of a daemon: one port number on every address that it answers on.
//
//   RAYO_ASSIGN_OR_RETURN(auto listening, rpc::listen_on(rpc::hosts_of(settings.bind), 6379));
//
// Non-blocking, close-on-exec, V6ONLY. Any thread; nothing waits, but a host that is a name is resolved.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/fd.h"
#include "runtime/base/settings.h"
#include "runtime/base/status.h"

namespace rayo::rpc {

struct Listening {
  std::vector<base::Fd> sockets;  // in the order of the hosts
  int port = 0;
};

// Port 0: any that is free on all of them. AlreadyExists: the port is taken on one of them.
base::StatusOr<Listening> listen_on(const std::vector<std::string>& hosts, int port);

// binding.host, binding.data_host where set, and loopback (127.0.0.1, and ::1 for a v6 host).
std::vector<std::string> hosts_of(const base::Binding& binding);

// "port 6379 is taken by nginx (pid 12)".
std::string taken_text(int port);

}  // namespace rayo::rpc
