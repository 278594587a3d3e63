#include "examples/llm_serving/gateway/access.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <netinet/in.h>

namespace serving::gateway {
namespace {

ApiError forbidden(std::string message) {
  ApiError error = bad_request(std::move(message));
  error.status = 403;
  error.type = "permission_error";
  return error;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "localhost", "127.0.0.1:8000", "[::1]:8000", "127.0.0.2": whatever address of this machine's own it listens on.
bool is_local(std::string_view given) {
  if (given.starts_with('[')) {
    const size_t end = given.find(']');
    return end != std::string_view::npos && given.substr(1, end - 1) == "::1";
  }
  const std::string host = lower(given.substr(0, given.find(':')));
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
  return host == "localhost" || host.ends_with(".localhost");
}

bool is_local_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return is_local(origin.substr(scheme.size()));
  }
  return false;
}

}  // namespace

std::optional<ApiError> Access::refuse_place(const Credentials& credentials) const {
  if (!loopback_) return std::nullopt;
  if (!credentials.host.empty() && !is_local(credentials.host))
    return forbidden("The Host header is '" + std::string(credentials.host.substr(0, 100)) +
                     "', and this service answers to localhost alone. Start it with --host to open it to others.");
  if (keys_.empty() && !credentials.origin.empty() && !is_local_origin(credentials.origin))
    return forbidden("Web pages of other sites may not use this service. Start it with --api-key-file to let them.");
  return std::nullopt;
}

std::optional<ApiError> Access::refuse_key(const Credentials& credentials) const {
  if (keys_.empty()) return std::nullopt;
  const std::string_view key = key_of(credentials);
  bool known = false;
  for (const std::string& one : keys_) known |= same_secret(one, key);
  if (known) return std::nullopt;
  return invalid_api_key(!key.empty());
}

std::string Access::allowed_origin(const Credentials& credentials) const {
  if (credentials.origin.empty()) return {};
  if (!loopback_ || !keys_.empty()) return "*";
  return is_local_origin(credentials.origin) ? std::string(credentials.origin) : std::string();
}

std::string_view key_of(const Credentials& credentials) {
  constexpr std::string_view kBearer = "bearer ";
  const std::string_view given = credentials.authorization;
  const bool bearer = given.size() > kBearer.size() &&
                      std::equal(kBearer.begin(), kBearer.end(), given.begin(),
                                 [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  if (bearer) return trim(given.substr(kBearer.size()));
  return trim(credentials.api_key);
}

std::vector<std::string> parse_keys(std::string_view file) {
  std::vector<std::string> keys;
  while (!file.empty()) {
    const size_t end = std::min(file.find('\n'), file.size());
    const std::string_view line = trim(file.substr(0, end));
    if (!line.empty() && line.front() != '#') keys.emplace_back(line);
    file.remove_prefix(std::min(end + 1, file.size()));
  }
  return keys;
}

bool same_secret(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned char>(a[i] ^ other);
  }
  return difference == 0;
}

}  // namespace serving::gateway
