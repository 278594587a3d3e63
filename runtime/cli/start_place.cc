#include "runtime/cli/start_place.h"

#include <memory>
#include <netdb.h>
#include <sys/socket.h>

#include "runtime/base/address.h"
#include "runtime/base/fd.h"
#include "runtime/base/text.h"
#include "runtime/rpc/interfaces.h"

namespace rayo::cli {
namespace {

using base::cat;

std::string list_addresses(const std::vector<rpc::Interface>& interfaces) {
  std::vector<std::string> parts;
  for (const rpc::Interface& one : interfaces) parts.push_back(cat(one.address, " (", one.name, ")"));
  return base::join(parts, ", ");
}

base::Status check_own_address(const std::string& host, const std::vector<rpc::Interface>& interfaces) {
  if (base::is_local_address(host)) return {};
  return base::failed(absl::StatusCode::kNotFound,
                      cat("cannot listen on ", host, ": no interface of this machine has that address"),
                      cat("--node-ip with one of ", list_addresses(interfaces)));
}

// The address that a packet to `target` would carry: what the routing table says, nothing is sent. "" where
// there is no way.
std::string source_address_towards(const base::HostPort& target) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(target.host.c_str(), cat(target.port).c_str(), &hints, &found) != 0) return {};
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const addrinfo* one = found; one; one = one->ai_next) {
    base::Fd fd(socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd || connect(fd.get(), one->ai_addr, one->ai_addrlen) != 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    char text[NI_MAXHOST];
    if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) {
      return text;
    }
  }
  return {};
}

bool is_loopback(const std::string& numeric) { return numeric.starts_with("127.") || numeric == "::1"; }

base::StatusOr<StartPlace> chosen_by_interface(const std::vector<rpc::Interface>& interfaces,
                                               const std::string& wanted) {
  RAYO_ASSIGN_OR_RETURN(rpc::InterfaceChoice choice, rpc::choose_interface(interfaces, wanted));
  return StartPlace{.host = choice.chosen.address, .why = choice.why, .local = choice.chosen.loopback};
}

}  // namespace

base::StatusOr<StartPlace> choose_place(const StartOptions& options) {
  if (options.local)
    return StartPlace{.host = "127.0.0.1", .why = "loopback alone, as asked by --local", .local = true};
  RAYO_ASSIGN_OR_RETURN(std::vector<rpc::Interface> interfaces, rpc::list_interfaces());
  StartPlace place;
  std::string on_the_way = options.head ? std::string() : source_address_towards(options.addresses.front());
  if (!options.node_ip.empty()) {
    RAYO_RETURN_IF_ERROR(check_own_address(options.node_ip, interfaces));
    place = {.host = options.node_ip, .why = "as asked by --node-ip", .local = is_loopback(options.node_ip)};
  } else if (!options.interface.empty() || on_the_way.empty()) {
    RAYO_ASSIGN_OR_RETURN(place, chosen_by_interface(interfaces, options.interface));
  } else {
    place = {.host = on_the_way,
             .why = cat("on the way to ", options.addresses.front().text()),
             .local = is_loopback(on_the_way)};
  }
  if (!options.data_interface.empty()) {
    RAYO_ASSIGN_OR_RETURN(StartPlace data, chosen_by_interface(interfaces, options.data_interface));
    place.data_host = data.host;
  }
  return place;
}

}  // namespace rayo::cli
