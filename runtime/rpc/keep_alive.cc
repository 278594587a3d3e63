#include "runtime/rpc/keep_alive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace rayo::rpc {

void break_when_silent(int socket) {
  const int on = 1, idle_seconds = 4, each_seconds = 2, probes = 3, unacknowledged_ms = 10'000;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &each_seconds, sizeof each_seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

}  // namespace rayo::rpc
