#include "runtime/rpc/interfaces.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <ifaddrs.h>
#include <iterator>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>

#include "runtime/base/text.h"

namespace rayo::rpc {
namespace {

std::vector<std::string> fields(std::string_view line) {
  std::vector<std::string> found;
  for (size_t begin = 0;;) {
    begin = line.find_first_not_of(" \t", begin);
    if (begin == std::string_view::npos) return found;
    size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    found.emplace_back(line.substr(begin, end - begin));
    begin = end;
  }
}

std::string numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    // A link-local address means nothing on another machine.
    if (!IN6_IS_ADDR_LINKLOCAL(&six)) inet_ntop(AF_INET6, &six, text, sizeof text);
  }
  return text;
}

bool is_six(const Interface& one) { return one.address.find(':') != std::string::npos; }

std::string listed(const std::vector<Interface>& interfaces, const Interface* without) {
  std::vector<std::string> texts;
  for (const Interface& one : interfaces)
    if (!without || (one.name != without->name && !one.loopback))
      texts.push_back(base::cat(one.name, ' ', one.address));
  return base::join(texts, ", ");
}

}  // namespace

std::string default_route_interface(std::string_view proc_net_route) {
  std::string best;
  uint64_t best_metric = UINT64_MAX;
  for (const std::string& line : base::split(proc_net_route, '\n')) {
    auto columns = fields(line);  // Iface Destination Gateway Flags RefCnt Use Metric Mask ...
    if (columns.size() < 8 || columns[1] != "00000000" || columns[7] != "00000000") continue;
    uint64_t metric = 0;
    const std::string& text = columns[6];
    if (std::from_chars(text.data(), text.data() + text.size(), metric).ec != std::errc()) continue;
    if (metric >= best_metric) continue;
    best = columns[0];
    best_metric = metric;
  }
  return best;
}

base::StatusOr<std::vector<Interface>> list_interfaces() {
  std::ifstream routes("/proc/net/route");
  std::string text((std::istreambuf_iterator<char>(routes)), std::istreambuf_iterator<char>());
  std::string default_route = default_route_interface(text);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return base::failed_errno(errno, "cannot list the network interfaces");
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP)) continue;
    std::string address = numeric(entry->ifa_addr);
    if (address.empty()) continue;
    found.push_back(
        {entry->ifa_name, address, (entry->ifa_flags & IFF_LOOPBACK) != 0, entry->ifa_name == default_route});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Interface& a, const Interface& b) { return is_six(a) < is_six(b); });
  return found;
}

base::StatusOr<InterfaceChoice> choose_interface(const std::vector<Interface>& interfaces, std::string_view wanted) {
  auto first = [&](auto&& fits) -> const Interface* {
    auto at = std::find_if(interfaces.begin(), interfaces.end(), fits);
    return at == interfaces.end() ? nullptr : &*at;
  };
  if (!wanted.empty()) {
    const Interface* named = first([&](const Interface& one) { return one.name == wanted; });
    if (named) return InterfaceChoice{*named, base::cat(named->name, ", as asked for")};
    return base::failed(absl::StatusCode::kNotFound,
                        base::cat("this machine has no interface '", wanted, "' that is up"),
                        base::cat("there are: ", listed(interfaces, nullptr)));
  }
  const Interface* chosen = first([](const Interface& one) { return one.default_route; });
  std::string why = "of the default route";
  if (!chosen) {
    chosen = first([](const Interface& one) { return !one.loopback; });
    why = "there is no default route";
  }
  if (!chosen) {
    chosen = first([](const Interface& one) { return one.loopback; });
    why = "no other is up";
  }
  if (!chosen)
    return base::failed(absl::StatusCode::kNotFound, "no network interface of this machine is up",
                        "bring one up, or at least loopback: `ip link set lo up`");
  std::string others = listed(interfaces, chosen);
  return InterfaceChoice{*chosen, base::cat(chosen->name, ", ", why, others.empty() ? "" : "; also up: ", others)};
}

}  // namespace rayo::rpc
