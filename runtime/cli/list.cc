#include "runtime/base/text.h"
#include "runtime/cli/cluster.h"
#include "runtime/cli/command.h"
#include "runtime/cli/failure_report.h"
#include "runtime/cli/list_items.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;
using base::cat;

constexpr base::Duration kPatience = 5s;  // the head asks every raylet for its workers
constexpr std::string_view kEach = "rayo list nodes, workers, actors, tasks, objects or jobs";

int check_what(const std::string& what, Terminal& terminal) {
  for (std::string_view known : {"nodes", "workers", "actors", "tasks", "objects", "jobs"}) {
    if (what == known) return kDone;
  }
  if (what == "groups") return terminal.fail("cannot list groups: they come with a later version", kEach, kWrongUse);
  return terminal.fail(cat("cannot list '", what, "': there is no such thing"), kEach, kWrongUse);
}

// The head knows the rest itself.
bool asks_the_nodes(std::string_view what) { return what == "workers" || what == "tasks" || what == "objects"; }

}  // namespace

int list_command(const Arguments& arguments, Terminal& terminal) {
  std::string what, address;
  std::vector<std::string> filters;
  bool json = false;
  Flags flags("list", "Nodes, workers, actors, tasks, objects or jobs: one line each.");
  flags.argument("WHAT", what, "nodes, workers, actors, tasks, objects, jobs", true);
  add_address_flag(flags, address);
  flags.on("--json", json, "one JSON document");
  flags.texts("--filter", filters, "KEY=VALUE", "only these; several are all to fit; keys as in --json");
  if (auto done = flags.read(arguments, terminal)) return *done;
  if (int code = check_what(what, terminal); code != kDone) return code;
  ClusterSearch search = find_cluster(address, terminal);
  if (!search.cluster) return terminal.fail(search.error, search.code);
  auto head = search.cluster->head(terminal);
  if (!head.ok()) return terminal.fail(head.status(), exit_code_of_call(head.status()));
  proto::ListRequest request;
  request.set_what(what);
  auto reply = (*head)->call_blocking(rpc::head::kList, request, kPatience);
  if (!reply.ok()) return terminal.fail(reply.status(), exit_code_of_call(reply.status()));
  if (reply->has_failure()) return fail(reply->failure(), terminal);
  auto items = filter_items(list_items(what, *reply), filters);
  if (!items.ok()) return terminal.fail(items.status(), kWrongUse);
  for (const std::string& node : reply->unreachable())
    terminal.note(cat("the node ", node, " does not answer: what it has is not shown"));
  if (json) {
    boost::json::object document{{"schema", 1}, {what, std::move(*items)}};
    if (asks_the_nodes(what))
      document["unreachable_nodes"] = boost::json::array(reply->unreachable().begin(), reply->unreachable().end());
    terminal.out() << base::as_utf8(boost::json::serialize(document)) << "\n";
  } else {
    terminal.out() << base::as_utf8(list_text(what, *items));
  }
  return kDone;
}

}  // namespace rayo::cli
