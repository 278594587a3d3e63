#include "runtime/rpc/listen.h"

#include <algorithm>
#include <cerrno>
#include <netinet/in.h>
#include <sys/socket.h>

#include "runtime/base/text.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/port_holder.h"

namespace rayo::rpc {
namespace {

using absl::StatusCode;
using base::cat;
using base::failed;

constexpr int kListenBacklog = 1024;
constexpr int kPortTries = 20;  // to find one number that is free on every address

void set_option(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

base::StatusOr<SocketAddress> numeric(const std::string& host, int port) {
  auto found = resolve({host, std::max(port, 1)});
  if (!found.ok()) return found.status();
  SocketAddress address = found->front();
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  (address.storage.ss_family == AF_INET ? v4.sin_port : v6.sin6_port) = htons(static_cast<uint16_t>(port));
  return address;
}

// AlreadyExists: the port is taken.
base::StatusOr<base::Fd> listen_at(const std::string& host, int port) {
  RAYO_ASSIGN_OR_RETURN(SocketAddress address, numeric(host, port));
  base::Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return base::failed_errno(errno, "cannot make a socket");
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.storage.ss_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (::bind(fd.get(), address.get(), address.length) == 0 && ::listen(fd.get(), kListenBacklog) == 0) return fd;
  if (errno == EADDRINUSE) return failed(StatusCode::kAlreadyExists, cat(address.text(), " is taken"));
  if (errno == EADDRNOTAVAIL)
    return failed(StatusCode::kInvalidArgument, cat(host, " is no address of this machine"),
                  "choose one with --node-ip or --interface");
  if (errno == EACCES)
    return failed(StatusCode::kPermissionDenied, cat("port ", port, " needs privileges"), "choose a port above 1023");
  return base::failed_errno(errno, cat("cannot listen on ", address.text()));
}

bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

}  // namespace

base::StatusOr<Listening> listen_on(const std::vector<std::string>& hosts, int port) {
  base::Status last;
  for (int tries = 0; tries < (port == 0 ? kPortTries : 1); ++tries) {
    Listening out{{}, port};
    last = absl::OkStatus();
    for (const auto& host : hosts) {
      auto fd = listen_at(host, out.port);
      if (!fd.ok()) {
        last = fd.status();
        break;
      }
      if (out.port == 0) {
        RAYO_ASSIGN_OR_RETURN(SocketAddress address, local_address(fd->get()));
        out.port = address.port();
      }
      out.sockets.push_back(std::move(*fd));
    }
    if (last.ok()) return out;
    if (!absl::IsAlreadyExists(last)) break;
  }
  return last;
}

std::vector<std::string> hosts_of(const base::Binding& binding) {
  std::vector<std::string> hosts;
  auto add = [&hosts](const std::string& host) {
    if (!host.empty() && std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  };
  add(binding.host);
  add(binding.data_host);
  bool v6 = binding.host.find(':') != std::string::npos;
  if (binding.host != "0.0.0.0") add("127.0.0.1");
  if (v6 && binding.host != "::") add("::1");
  if (is_any(binding.host))
    std::erase_if(
        hosts, [&](const auto& host) { return host != binding.host && (host.find(':') != std::string::npos) == v6; });
  return hosts;
}

std::string taken_text(int port) {
  std::string holder = port_holder(port);
  return cat("port ", port, " is taken by ", holder.empty() ? "another process" : holder);
}

}  // namespace rayo::rpc
