#include "runtime/base/config.h"

#include <boost/json.hpp>

#include "runtime/base/session.h"
#include "runtime/cli/cluster.h"
#include "runtime/cli/command.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kPatience = 2s;

struct Row {
  std::string key, value, source, reason;
};

std::vector<Row> rows_of(const base::Config& config) {
  std::vector<Row> rows;
  for (const base::Setting& setting : base::all_settings()) {
    const auto& entry = config.entry(setting.key);
    rows.push_back({std::string(setting.key), entry.value, entry.source, std::string(setting.reason)});
  }
  return rows;
}

std::vector<Row> rows_of(const proto::ConfigReply& reply) {
  std::vector<Row> rows;
  for (const proto::ConfigEntry& entry : reply.entries())
    rows.push_back({entry.key(), entry.value(), entry.source(), entry.reason()});
  return rows;
}

void print(const std::vector<Row>& rows, bool json, Terminal& terminal) {
  if (!json) {
    std::vector<std::vector<std::string>> cells = {{"SETTING", "VALUE", "FROM", "WHY"}};
    for (const Row& row : rows) cells.push_back({row.key, row.value, row.source, row.reason});
    terminal.out() << table(cells);
    return;
  }
  boost::json::array settings;
  for (const Row& row : rows)
    settings.push_back({{"key", row.key}, {"value", row.value}, {"source", row.source}, {"reason", row.reason}});
  terminal.out() << boost::json::serialize(boost::json::object{{"schema", 1}, {"settings", std::move(settings)}})
                 << "\n";
}

}  // namespace

int config_command(const Arguments& arguments, Terminal& terminal) {
  std::string address, file;
  bool json = false;
  Flags flags(
      "config",
      "Each setting of the cluster (or, without one, of rayo.toml in the home), its value and where it comes from.");
  add_address_flag(flags, address);
  flags.text("--config", file, "FILE", "check this rayo.toml instead of asking the cluster");
  flags.on("--json", json, "one JSON document");
  if (auto done = flags.read(arguments, terminal)) return *done;
  ClusterSearch search = file.empty() ? find_cluster(address, terminal) : ClusterSearch{};
  if (!search.cluster) {
    if (search.code == kWrongUse) return terminal.fail(search.error, search.code);
    auto config = base::Config::read(file.empty() ? base::config_file() : base::Path(file));
    if (!config.ok()) return terminal.fail(config.status(), kWrongUse);
    print(rows_of(*config), json, terminal);
    return kDone;
  }
  auto head = search.cluster->head(terminal);
  if (!head.ok()) return terminal.fail(head.status(), exit_code_of_call(head.status()));
  auto reply = (*head)->call_blocking(rpc::head::kGetConfig, proto::ConfigRequest(), kPatience);
  if (!reply.ok()) return terminal.fail(reply.status(), exit_code_of_call(reply.status()));
  print(rows_of(*reply), json, terminal);
  return kDone;
}

}  // namespace rayo::cli
