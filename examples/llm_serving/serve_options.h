// The command line of `rayo serve`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace serving {

struct ServeOptions {
  enum class Verb { kServe, kStatus, kStop, kScale, kHelp };
  Verb verb = Verb::kServe;
  std::string model;                // a path, a name in models/, or pip:NAME
  std::string name;                 // what clients call it; empty: the file's name; of stop and scale: which one
  std::optional<int32_t> replicas;  // empty: auto, one for each node that holds it
  std::string host = "127.0.0.1";
  uint16_t port = 8000;
  std::string api_key_file;
  bool no_auth = false;
  int32_t max_context = 0;
  int32_t parallel = 8;
  int32_t threads = 0;
  int32_t step_timeout = 30;  // seconds
  bool detach = false;
  bool json = false;
};

// Wrong use: what is wrong, and what to do.
struct UsageError {
  std::string what;
  std::string next;
};

std::variant<ServeOptions, UsageError> parse_serve_options(const std::vector<std::string>& arguments);

std::string serve_usage();

// Whether only this machine can reach it.
bool is_loopback(const std::string& host);

}  // namespace serving
