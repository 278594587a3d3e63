#include <boost/json.hpp>

#include "runtime/base/text.h"
#include "runtime/cli/command.h"
#include "runtime/cli/doctor_checks.h"

namespace rayo::cli {
namespace {

using base::cat;

std::string_view word(Health health) {
  switch (health) {
    case Health::kGood:
      return "ok";
    case Health::kNotice:
      return "note";
    case Health::kBad:
      return "BAD";
  }
  return "";
}

void print(const std::vector<Finding>& findings, Terminal& terminal) {
  std::vector<std::vector<std::string>> rows;
  for (const Finding& finding : findings) {
    rows.push_back({std::string(word(finding.health)), finding.check, finding.text});
    if (!finding.mend.empty()) rows.push_back({"", "", cat("mend: ", finding.mend)});
  }
  terminal.out() << table(rows);
}

void print_json(const std::vector<Finding>& findings, Terminal& terminal) {
  boost::json::array checks;
  for (const Finding& finding : findings) {
    checks.push_back({{"check", finding.check},
                      {"health", base::lower(word(finding.health))},
                      {"text", finding.text},
                      {"mend", finding.mend}});
  }
  terminal.out() << boost::json::serialize(boost::json::object{{"schema", 1}, {"checks", std::move(checks)}}) << "\n";
}

}  // namespace

int doctor_command(const Arguments& arguments, Terminal& terminal) {
  bool json = false;
  Flags flags("doctor",
              "Checks what commonly breaks on this machine, and says how to mend it. Exit code 1 where "
              "something is bad.");
  flags.on("--json", json, "one JSON document");
  if (auto done = flags.read(arguments, terminal)) return *done;
  std::vector<Finding> findings = check_machine();
  if (json) {
    print_json(findings, terminal);
  } else {
    print(findings, terminal);
  }
  std::vector<std::string> bad;
  for (const Finding& finding : findings) {
    if (finding.health == Health::kBad) bad.push_back(finding.check);
  }
  if (bad.empty()) return kDone;
  return terminal.fail(cat("this machine is not ready: ", base::join(bad, ", ")), "the mends above", kFailed);
}

}  // namespace rayo::cli
