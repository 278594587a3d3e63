#include <boost/json.hpp>

#include "runtime/base/text.h"
#include "runtime/cli/cluster.h"
#include "runtime/cli/command.h"
#include "runtime/cli/failure_report.h"
#include "runtime/cli/status_text.h"
#include "runtime/rpc/proto_ids.h"
#include "runtime/rpc/status_json.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;
using base::cat;

constexpr base::Duration kPatience = 5s;  // the head asks nodes on the way

boost::json::value why_json(const std::string& id, const proto::WhyReply& why) {
  boost::json::array reasons = rpc::reasons_json(why.reasons()).as_array();
  for (size_t i = 0; i < reasons.size(); ++i) {  // in `why` a reason is one node's
    const proto::Reason& reason = why.reasons(static_cast<int>(i));
    if (reason.has_node()) reasons[i].as_object()["node"] = rpc::from_proto<NodeId>(reason.node()).hex();
  }
  return {{"schema", 1},
          {"id", id},
          {"kind", why.kind()},
          {"state", why.state()},
          {"text", why.text()},
          {"reasons", std::move(reasons)},
          {"death", why.has_death() ? rpc::death_json(why.death()) : boost::json::value(nullptr)}};
}

std::string why_text(const std::string& id, const proto::WhyReply& why) {
  std::string text = cat(why.kind(), " ", printable(id), ": ", why.state(), "\n");
  if (!why.text().empty()) text += cat("  ", printable(why.text()), "\n");
  std::vector<std::vector<std::string>> rows;
  for (const proto::Reason& reason : why.reasons()) {
    rows.push_back({cat("  ", reason.has_node() ? short_id(reason.node()) : std::string("cluster")), reason.code(),
                    reason.text()});
  }
  text += table(rows);
  if (why.has_death() && why.death().kind() != proto::DEATH_UNSPECIFIED) text += death_text(why.death());
  return text;
}

}  // namespace

int why_command(const Arguments& arguments, Terminal& terminal) {
  std::string id, address;
  bool json = false;
  Flags flags("why", "Why an actor, task, worker or node is as it is, node by node.");
  flags.argument("ID", id, "its id, or the first 6 digits and more", true);
  add_address_flag(flags, address);
  flags.on("--json", json, "one JSON document");
  if (auto done = flags.read(arguments, terminal)) return *done;
  ClusterSearch search = find_cluster(address, terminal);
  if (!search.cluster) return terminal.fail(search.error, search.code);
  auto head = search.cluster->head(terminal);
  if (!head.ok()) return terminal.fail(head.status(), exit_code_of_call(head.status()));
  proto::WhyRequest request;
  request.set_id(id);
  auto reply = (*head)->call_blocking(rpc::head::kWhy, request, kPatience);
  if (!reply.ok()) return terminal.fail(reply.status(), exit_code_of_call(reply.status()));
  if (reply->has_failure()) return fail(reply->failure(), terminal);
  terminal.out() << base::as_utf8(json ? boost::json::serialize(why_json(id, *reply)) + "\n" : why_text(id, *reply));
  return kDone;
}

}  // namespace rayo::cli
