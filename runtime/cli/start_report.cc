#include "runtime/cli/start_report.h"

#include <boost/json.hpp>

#include "runtime/base/address.h"
#include "runtime/base/text.h"
#include "runtime/base/version.h"

namespace rayo::cli {
namespace {

using base::cat;

bool loopback_only(const std::string& address) {
  auto parsed = base::parse_host_port(address);
  return parsed.ok() && (parsed->host.starts_with("127.") || parsed->host == "::1" || parsed->host == "localhost");
}

// Beyond this machine the port speaks TLS alone: who opens it there needs the cluster's CA and token.
std::string http_lines(const StartReport& report) {
  std::string text = cat("  HTTP       ", report.head.http, "\n");
  if (!report.head.http.starts_with("https")) return text;
  size_t port = report.head.http.rfind(':');
  return cat(text, "             with `Authorization: Bearer TOKEN` and the CA ",
             (report.session.state / "ca.pem").string(), "\n             here too: http://127.0.0.1",
             std::string_view(report.head.http).substr(port), "\n");
}

}  // namespace

std::string join_line(const base::Session& session) {
  std::string line = cat("rayo start --address ", session.address);
  if (loopback_only(session.address)) return line;
  auto token = base::read_file(session.token_file());
  return token.ok() ? cat("RAYO_TOKEN=", base::trim(*token), " ", line) : line;
}

std::string start_text(const StartReport& report) {
  const base::Session& session = report.session;
  std::string which = report.alone ? std::string() : cat(" --address ", session.address);
  std::string text;
  if (report.options.head) {
    text += cat("Cluster '", session.cluster_name, "' is up (Rayo ", base::kVersion, ", ",
                base::fixed(report.seconds, 2), " s).\n");
    text += cat("  head       ", session.address, "  (", report.place.why, ")\n");
  } else {
    text += cat("This machine is part of the cluster at ", session.address, " (Rayo ", base::kVersion, ", ",
                base::fixed(report.seconds, 2), " s).\n");
  }
  text += cat("  this node  ", report.raylet.address,
              report.options.head ? std::string() : cat("  (", report.place.why, ")"), "\n");
  if (!report.raylet.data_address.empty())
    text += cat("  data       ", report.raylet.data_address, "  (", report.options.data_interface, ", as asked for)\n");
  if (!report.head.http.empty()) text += http_lines(report);
  text += cat("  status     rayo status", which, "\n");
  text += cat("  stop       rayo stop", which, "\n");
  if (!report.options.head) return text;
  text += loopback_only(session.address) ? "\nA further node on this machine:\n" : "\nAnother machine joins with:\n";
  return text + "  " + join_line(session) + "\n";
}

std::string start_json(const StartReport& report) {
  const base::Session& session = report.session;
  std::vector<std::string> notes = report.head.notes;
  notes.insert(notes.end(), report.raylet.notes.begin(), report.raylet.notes.end());
  boost::json::object document{
      {"schema", 1},
      {"name", session.name},
      {"cluster", session.cluster},
      {"address", session.address},
      {"http", session.http},
      {"session_dir", session.dir.string()},
      {"node", report.raylet.node},
      {"node_address", report.raylet.address},
      {"data_address", report.raylet.data_address.empty() ? report.raylet.address : report.raylet.data_address},
      {"node_dir", report.node.dir.string()},
      {"duration_seconds", report.seconds},
      {"notes", boost::json::value_from(notes)}};
  return boost::json::serialize(document) + "\n";
}

}  // namespace rayo::cli
