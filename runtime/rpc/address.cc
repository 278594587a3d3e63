#include "runtime/rpc/address.h"

#include <charconv>

#include "runtime/base/text.h"

namespace rayo::rpc {
namespace {

base::Status wrong(std::string_view text, std::string_view why) {
  return base::failed(absl::StatusCode::kInvalidArgument, base::cat("'", text, "' is not an address: ", why),
                      "write HOST:PORT, such as 10.0.0.5:6379 or [fd00::5]:6379");
}

}  // namespace

std::string HostPort::text() const {
  return host.find(':') == std::string::npos ? base::cat(host, ':', port) : base::cat('[', host, "]:", port);
}

base::StatusOr<HostPort> parse_host_port(std::string_view text, int default_port) {
  std::string_view whole = text = base::trim(text);
  HostPort address;
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong(whole, "its '[' is never closed");
    address.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (!text.empty() && text[0] != ':') return wrong(whole, "behind ']' comes a port or nothing");
    has_port = !text.empty();
    if (has_port) port = text.substr(1);
  } else {
    size_t colon = text.find(':');
    if (colon != text.rfind(':')) return wrong(whole, "an IPv6 address stands in brackets");
    address.host = text.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = text.substr(colon + 1);
  }
  if (address.host.empty()) return wrong(whole, "it has no host");
  for (char c : address.host)
    if (static_cast<unsigned char>(c) <= ' ' || c == '/' || c == '@' || c == ',' || c == '[' || c == 0x7f)
      return wrong(whole, "its host holds a character that no host has");
  if (!has_port && default_port > 0) {
    address.port = default_port;
    return address;
  }
  if (!has_port) return wrong(whole, "it has no port");
  auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port < 1 || address.port > 65535)
    return wrong(whole, "its port is not a number of 1 to 65535");
  return address;
}

base::StatusOr<std::vector<HostPort>> parse_address_list(std::string_view text, int default_port) {
  std::vector<HostPort> addresses;
  for (const std::string& piece : base::split(text, ',')) {
    RAYO_ASSIGN_OR_RETURN(HostPort address, parse_host_port(piece, default_port));
    addresses.push_back(std::move(address));
  }
  return addresses;
}

}  // namespace rayo::rpc
