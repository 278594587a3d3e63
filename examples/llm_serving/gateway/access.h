// Who may ask: API keys, the Host header, and which web pages.
//
// On loopback without keys everything on this machine may ask, so a web page that the user visits must not: its requests
// carry an Origin that is not local, or (DNS rebinding) a Host that is not ours. Off loopback keys, or --no-auth, decide,
// and any page may ask.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "examples/llm_serving/gateway/api_error.h"

namespace serving::gateway {

struct Credentials {
  std::string_view host;
  std::string_view origin;
  std::string_view authorization;  // "Bearer KEY"
  std::string_view api_key;        // of X-Api-Key
};

class Access {
 public:
  Access(bool loopback, std::vector<std::string> keys) : loopback_(loopback), keys_(std::move(keys)) {}

  // What is wrong with where the request comes from; 403.
  std::optional<ApiError> refuse_place(const Credentials& credentials) const;
  // What is wrong with its key; 401.
  std::optional<ApiError> refuse_key(const Credentials& credentials) const;
  // The value of Access-Control-Allow-Origin; empty: none.
  std::string allowed_origin(const Credentials& credentials) const;
  bool has_keys() const { return !keys_.empty(); }

 private:
  bool loopback_;
  std::vector<std::string> keys_;
};

// The key of the request, however it was sent; empty: none.
std::string_view key_of(const Credentials& credentials);

// One key a line; blank lines and those that begin with # are none.
std::vector<std::string> parse_keys(std::string_view file);

// In a time that tells nothing of where they differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace serving::gateway
