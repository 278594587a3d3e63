// Who listens on a TCP port of this machine: "nginx (pid 12)", for the error of a port that is taken. Looks
// into /proc/net/tcp, tcp6 and /proc/PID/fd; a process of another user is found only as its user ("a process
// of user 0"). Blocks for some milliseconds; any thread. "" where nobody is found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rayo::rpc {

std::string port_holder(int port);

struct Listener {
  int port = 0;
  uint64_t inode = 0;
  uint32_t uid = 0;
};
// The listening sockets in the text of /proc/net/tcp or tcp6; lines that it does not understand are left out.
std::vector<Listener> parse_listeners(std::string_view proc_net_tcp);

}  // namespace rayo::rpc
