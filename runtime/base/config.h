// A cluster's settings: rayo.toml on the head's machine, sent to each node at its join, shown by `rayo
// config`.
//
//   [nodes]
//   suspect_after = "1s"
//
//   RAYO_ASSIGN_OR_RETURN(Config config, Config::read(settings.config_file));   // "" : the defaults
//   Duration suspect = config.duration("nodes.suspect_after");
//
// The table below is the only place where a default stands. A key that is not in it is an error (a typo must
// not be taken silently), and so is a value that does not parse or is under 1 ms. A Config is a value; any thread.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/private_file.h"
#include "runtime/base/status.h"

namespace rayo::base {

struct Setting {
  std::string_view key;
  std::string_view by_default;  // a span of time, as all settings of this version are
  std::string_view reason;      // why this default
};

// Every setting there is, in the order of `rayo config`.
std::span<const Setting> all_settings();

class Config {
 public:
  struct Entry {
    std::string value;
    std::string source;  // "default", or the file that says so
  };

  Config();  // the defaults
  // InvalidArgument: unknown key (the nearest known one is named), or a value that does not parse; NotFound:
  // no such file.
  static StatusOr<Config> read(const Path& toml);
  static StatusOr<Config> parse(std::string_view toml, const std::string& source);
  // What the head sent: keys of a newer version are passed by.
  static Config from_head(const std::map<std::string, std::string>& values);
  std::map<std::string, std::string> values() const;

  // The key stands in the table: anything else is our own mistake (RAYO_CHECK).
  Duration duration(std::string_view key) const;
  const Entry& entry(std::string_view key) const;

 private:
  Status set(const std::string& key, const std::string& value, const std::string& source);
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace rayo::base
