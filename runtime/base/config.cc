#include "runtime/base/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>

#include "runtime/base/check.h"
#include "runtime/base/text.h"
#include "runtime/base/units.h"

namespace rayo::base {
namespace {

constexpr Duration kLeast = std::chrono::milliseconds(1);  // of any span below: none of them may be "off"

constexpr std::array kSettings{
    Setting{"nodes.suspect_after", "1s", "four missed beats: nothing new is placed there"},
    Setting{"nodes.dead_after_refused", "3s", "its port refuses: the machine lives, the raylet does not"},
    Setting{"nodes.dead_after_silent", "10s", "longer than a switch takes to come back, shorter than patience"},
    Setting{"head.patience", "5s",
            "a head that is started again answers within it; who needs one that is gone is told"},
    Setting{"devices.list_each", "30s", "a listing by NVML takes some 100 ms of a processor"},
    Setting{"leases.confirm_each", "30s", "what was said of a lease and lost on its way holds resources no longer"},
    Setting{"links.idle_after", "30s",
            "a ring between two processes holds 132 KiB; making one again takes a millisecond"},
};

// Levenshtein's distance: which key a typo meant.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

Status unknown_key(const std::string& key, const std::string& source) {
  const Setting* nearest = &kSettings[0];
  for (const Setting& setting : kSettings) {
    if (distance(key, setting.key) < distance(key, nearest->key)) nearest = &setting;
  }
  std::string next = distance(key, nearest->key) <= 4 ? cat("did you mean '", nearest->key, "'? ") : std::string();
  return failed(absl::StatusCode::kInvalidArgument, cat("cannot use ", source, ": '", key, "' is not a setting"),
                cat(next, "`rayo config` lists every setting"));
}

}  // namespace

std::span<const Setting> all_settings() { return kSettings; }

Config::Config() {
  for (const Setting& setting : kSettings)
    entries_[std::string(setting.key)] = {std::string(setting.by_default), "default"};
}

Status Config::set(const std::string& key, const std::string& value, const std::string& source) {
  for (const Setting& setting : kSettings) {
    if (setting.key != key) continue;
    auto span = parse_duration(value);
    if (span.ok() && *span < kLeast)
      span = failed(absl::StatusCode::kInvalidArgument, cat("'", value, "' is less than ", format_duration(kLeast)),
                    cat(key, " = \"", setting.by_default, "\" is the default"));
    RAYO_RETURN_IF_ERROR(within(span.status(), cat("cannot use ", source, ": ", key)));
    entries_[key] = {value, source};
    return {};
  }
  return unknown_key(key, source);
}

StatusOr<Config> Config::parse(std::string_view toml, const std::string& source) {
  Config config;
  std::istringstream stream{std::string(toml)};
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_config(stream);
  } catch (const std::exception& error) {  // CLI11 reports by exceptions
    return failed(absl::StatusCode::kInvalidArgument, cat("cannot read ", source, ": ", error.what()),
                  "see https://toml.io");
  }
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // begin and end of a section
    RAYO_RETURN_IF_ERROR(
        config.set(item.fullname(), item.inputs.size() == 1 ? item.inputs[0] : join(item.inputs, ","), source));
  }
  return config;
}

StatusOr<Config> Config::read(const Path& toml) {
  if (toml.empty()) return Config();
  RAYO_ASSIGN_OR_RETURN(std::string text, read_file(toml));
  return parse(text, toml.string());
}

Config Config::from_head(const std::map<std::string, std::string>& values) {
  Config config;
  for (const auto& [key, value] : values) config.set(key, value, "head").IgnoreError();
  return config;
}

std::map<std::string, std::string> Config::values() const {
  std::map<std::string, std::string> values;
  for (const auto& [key, entry] : entries_) values[key] = entry.value;
  return values;
}

const Config::Entry& Config::entry(std::string_view key) const {
  auto found = entries_.find(key);
  RAYO_CHECK(found != entries_.end(), "code asks only for keys of the table");
  return found->second;
}

Duration Config::duration(std::string_view key) const {
  auto span = parse_duration(entry(key).value);
  RAYO_CHECK(span.ok(), "values were checked when they were set");
  return *span;
}

}  // namespace rayo::base
