#include <boost/json.hpp>
#include <cstdlib>

#include "runtime/base/session.h"
#include "runtime/base/text.h"
#include "runtime/cli/cluster.h"
#include "runtime/cli/command.h"
#include "runtime/cli/start_report.h"

namespace rayo::cli {

int token_command(const Arguments& arguments, Terminal& terminal) {
  std::string address;
  bool json = false, rotate = false;
  Flags flags("token", "The line that joins another machine to the cluster. Whoever has it can run programs here.");
  add_address_flag(flags, address);
  flags.on("--json", json, "one JSON document");
  flags.hidden_on("--rotate", rotate);
  if (auto done = flags.read(arguments, terminal)) return *done;
  if (rotate) return terminal.fail("cannot rotate the token: it comes with a later version", "rayo token", kWrongUse);
  const char* environment = std::getenv("RAYO_ADDRESS");
  auto session = base::find_session(address.empty() && environment ? environment : address);
  if (!session.ok()) return terminal.fail(session.status(), exit_code_of_search(session.status()));
  auto token = base::read_file(session->token_file());
  if (!token.ok()) return terminal.fail(base::within(token.status(), "cannot tell the token"), kFailed);
  if (json) {
    boost::json::object document{
        {"schema", 1}, {"address", session->address}, {"token", base::trim(*token)}, {"line", join_line(*session)}};
    terminal.out() << boost::json::serialize(document) << "\n";
  } else {
    terminal.out() << join_line(*session) << "\n";
  }
  return kDone;
}

}  // namespace rayo::cli
