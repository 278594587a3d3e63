#include "runtime/base/address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>

#include "runtime/base/text.h"

namespace rayo::base {
namespace {

std::string numeric_text(const sockaddr* address) {
  char host[NI_MAXHOST];
  socklen_t length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  std::string text = host;
  return text.substr(0, text.find('%'));  // a link-local address carries its interface
}

bool is_loopback(const std::string& numeric) { return numeric == "::1" || numeric.starts_with("127."); }

}  // namespace

std::string HostPort::text() const {
  return host.find(':') == std::string::npos ? cat(host, ":", port) : cat("[", host, "]:", port);
}

StatusOr<HostPort> parse_host_port(std::string_view text) {
  std::string_view trimmed = trim(text);
  size_t colon = trimmed.rfind(':');
  HostPort result;
  if (colon != std::string_view::npos && colon > 0) {
    std::string_view host = trimmed.substr(0, colon), port = trimmed.substr(colon + 1);
    bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
    bool whole = error == std::errc() && end == port.data() + port.size() && result.port >= 1 && result.port <= 65535;
    bool plain = host.find_first_of(bracketed ? "/@[]" : "/@[]:") == std::string_view::npos &&
                 std::none_of(host.begin(), host.end(), [](unsigned char c) { return c <= ' ' || c == 0x7f; });
    if (whole && plain) {
      result.host = host;
      return result;
    }
  }
  return failed(absl::StatusCode::kInvalidArgument, cat("'", text, "' is not an address"),
                "write HOST:PORT, such as 10.0.0.5:6379, head.lan:6379 or [fe80::1]:6379");
}

StatusOr<HostPort> parse_host(std::string_view text, int default_port) {
  std::string_view trimmed = trim(text);
  bool bracketed = trimmed.ends_with(']');
  bool bare_v6 = !trimmed.starts_with('[') && std::count(trimmed.begin(), trimmed.end(), ':') > 1;
  bool has_port = !bracketed && !bare_v6 && trimmed.find(':') != std::string_view::npos;
  if (has_port) return parse_host_port(trimmed);
  RAYO_ASSIGN_OR_RETURN(HostPort host, parse_host_port(bare_v6 ? cat("[", trimmed, "]:1") : cat(trimmed, ":1")));
  host.port = default_port;
  return host;
}

StatusOr<std::vector<HostPort>> parse_host_ports(std::string_view text) {
  std::vector<HostPort> addresses;
  for (const std::string& piece : split(text, ',')) {
    RAYO_ASSIGN_OR_RETURN(HostPort address, parse_host_port(piece));
    addresses.push_back(std::move(address));
  }
  return addresses;
}

StatusOr<std::vector<std::string>> resolve_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return failed(
        absl::StatusCode::kNotFound, cat("cannot resolve '", host, "': ", gai_strerror(error)),
        cat("check the spelling (`getent hosts ", host, "` should name an address), or give the address in digits"));
  }
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    std::string text = numeric_text(one->ai_addr);
    if (!text.empty() && std::find(addresses.begin(), addresses.end(), text) == addresses.end())
      addresses.push_back(text);
  }
  return addresses;
}

bool is_local_address(const std::string& numeric) {
  if (is_loopback(numeric)) return true;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return false;
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, freeifaddrs);
  for (const ifaddrs* one = found; one; one = one->ifa_next) {
    if (!one->ifa_addr || (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6)) continue;
    if (numeric_text(one->ifa_addr) == numeric) return true;
  }
  return false;
}

}  // namespace rayo::base
