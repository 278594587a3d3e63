#include <boost/json.hpp>

#include "runtime/base/text.h"
#include "runtime/cli/cluster.h"
#include "runtime/cli/command.h"
#include "runtime/cli/interrupts.h"
#include "runtime/cli/status_text.h"
#include "runtime/rpc/status_json.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kHeadPatience = 2s;  // a head answers in milliseconds; more is a head that hangs
constexpr base::Duration kRayletPatience = 1s;

struct View {
  std::optional<proto::StatusReply> status;  // the head's, or what the raylet here last knew
  base::Status error;                        // ok where the head answered
};

View ask(Cluster& cluster, Terminal& terminal) {
  View view;
  auto head = cluster.head(terminal);
  if (head.ok()) {
    auto reply = (*head)->call_blocking(rpc::head::kGetStatus, proto::StatusRequest(), kHeadPatience);
    if (reply.ok()) {
      view.status = std::move(*reply);
      return view;
    }
    view.error = reply.status();
  } else {
    view.error = head.status();
  }
  if (rpc::Channel* raylet = cluster.local_raylet()) {
    auto known = raylet->call_blocking(rpc::raylet::kGetLocalStatus, proto::StatusRequest(), kRayletPatience);
    if (known.ok()) {
      view.status = std::move(*known);
      view.status->set_reachable(false);
    }
  }
  return view;
}

// A head that answers late is for `status` a head that does not answer: both have one exit code (docs/errors.md).
ExitCode code_for(const base::Status& error) {
  ExitCode code = exit_code_of_call(error);
  return code == kRefused ? kRefused : kNoCluster;
}

int show(Cluster& cluster, bool json, bool repaint, Terminal& terminal) {
  View view = ask(cluster, terminal);
  std::string text;
  if (view.status)
    text = json ? rpc::status_json(*view.status) + "\n"
                : base::as_utf8(status_text(*view.status, base::system_clock().wall()));
  if (repaint) text = "\x1b[H\x1b[2J" + text;
  terminal.out() << text << std::flush;
  if (view.error.ok()) return kDone;
  bool placed = base::message(view.error).find(cluster.address()) != std::string_view::npos;
  base::Status error =
      placed ? view.error : base::within(view.error, base::cat("cannot reach the head at ", cluster.address()));
  return terminal.fail(error, code_for(view.error));
}

}  // namespace

int status_command(const Arguments& arguments, Terminal& terminal) {
  std::string address;
  bool json = false, watch = false;
  Flags flags("status", "What runs where, and what waits for what.");
  add_address_flag(flags, address);
  flags.on("--json", json, "one JSON document");
  flags.on("--watch", watch, "again each second, until Ctrl-C");
  if (auto done = flags.read(arguments, terminal)) return *done;
  if (!watch) {
    ClusterSearch search = find_cluster(address, terminal);
    if (!search.cluster) return terminal.fail(search.error, search.code);
    return show(*search.cluster, json, false, terminal);
  }
  Interrupts interrupts;
  do {  // found anew each time: a cluster may come and go while it is watched
    ClusterSearch search = find_cluster(address, terminal);
    if (search.cluster) {
      show(*search.cluster, json, !json && terminal.interactive(), terminal);
    } else {
      terminal.fail(search.error, search.code);
    }
  } while (terminal.out().good() && !interrupts.wait(1s));
  return kDone;
}

}  // namespace rayo::cli
