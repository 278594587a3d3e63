#include "runtime/cli/app.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/cli/command.h"

namespace rayo::cli {
namespace {

namespace fs = std::filesystem;
using base::cat;

struct Command {
  std::string_view name;
  int (*run)(const Arguments&, Terminal&);
  std::string_view usage;
  std::string_view summary;
};

constexpr std::array kCommands{
    Command{"start", start_command, "start --head | --address HOST:PORT [--json]", "start a cluster here, or join one"},
    Command{"stop", stop_command, "stop [--all]", "end this machine's part; on the head's machine the cluster"},
    Command{"status", status_command, "status [--json] [--watch]", "what runs where, and what waits for what"},
    Command{"list", list_command, "list nodes|workers|actors|tasks|objects|jobs",
            "one line each, or --json; --filter key=value"},
    Command{"why", why_command, "why ID [--json]", "why an actor, task or node is as it is, node by node"},
    Command{"logs", logs_command, "logs [ID] [--follow] [--tail N] [--json]",
            "what a worker, an actor or this machine's daemons printed"},
    Command{"config", config_command, "config [--json]", "each setting, its value and where it comes from"},
    Command{"doctor", doctor_command, "doctor [--json]", "check what commonly breaks, and how to mend it"},
    Command{"token", token_command, "token [--json]", "the line that joins another machine"},
    Command{"version", version_command, "version [--json]", "the version"},
};

// Programs of their own, told where they are installed.
struct Companion {
  std::string_view name;
  std::string_view usage;
  std::string_view summary;
};
constexpr std::array kCompanions{
    Companion{"serve", "serve MODEL | status | stop | scale N | bench",
              "a GGUF model behind OpenAI's API, on several nodes"},
};

// Commands that a later version brings: a clear answer instead of "unknown command".
constexpr std::array<std::string_view, 3> kPlanned = {"memory", "network", "drain"};

const Command* find(std::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

// The daemons stand beside rayo too, but they are no commands.
constexpr std::array<std::string_view, 4> kDaemons = {"head", "raylet", "keeper", "gpu-probe"};

// The program `rayo-NAME`: beside this one, else on PATH; empty where there is none.
std::string external_program(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return {};
  if (std::find(kDaemons.begin(), kDaemons.end(), name) != kDaemons.end()) return {};
  std::error_code error;
  std::vector<fs::path> places = {fs::read_symlink("/proc/self/exe", error).parent_path()};
  const char* path = std::getenv("PATH");
  for (const std::string& place : base::split(path ? path : "", ':')) places.emplace_back(place);
  for (const fs::path& place : places) {
    fs::path candidate = place / ("rayo-" + name);
    if (!place.empty() && access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate, error))
      return candidate.string();
  }
  return {};
}

std::string overview() {
  std::vector<std::vector<std::string>> rows;
  for (const Command& command : kCommands)
    rows.push_back({cat("  rayo ", command.usage), std::string(command.summary)});
  for (const Companion& companion : kCompanions) {
    if (!external_program(std::string(companion.name)).empty())
      rows.push_back({cat("  rayo ", companion.usage), std::string(companion.summary)});
  }
  rows.push_back({"  rayo help [COMMAND]", "the flags of a command"});
  return cat("Rayo ", base::kVersion, ": actors, tasks and shared objects over the machines you have.\n\n", table(rows),
             "\nExit codes: 0 done, 1 failed, 2 wrong use, 3 no cluster or not reachable, 4 refused, 5 timed out.\n",
             "Environment: RAYO_ADDRESS, RAYO_TOKEN, RAYO_TOKEN_FILE, RAYO_HOME, RAYO_RUNTIME_DIR.\n");
}

int run_external(const std::string& program, const Arguments& arguments, Terminal& terminal) {
  terminal.out().flush();
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return terminal.fail(base::failed_errno(errno, cat("cannot run ", program)), kFailed);
}

int unknown(const std::string& name, Terminal& terminal) {
  for (std::string_view planned : kPlanned) {
    if (planned == name)
      return terminal.fail(cat("cannot run '", name, "': it comes with a later version"), "rayo help", kWrongUse);
  }
  return terminal.fail(
      cat("cannot run '", name, "': it is not a command, and no program rayo-", name, " is beside rayo or on PATH"),
      "rayo help", kWrongUse);
}

int help(const Arguments& arguments, Terminal& terminal) {
  if (arguments.empty() || arguments[0] == "help") {
    terminal.out() << overview();
    return kDone;
  }
  if (const Command* command = find(arguments[0])) return command->run({"--help"}, terminal);
  std::string program = external_program(arguments[0]);
  return program.empty() ? unknown(arguments[0], terminal) : run_external(program, {"--help"}, terminal);
}

}  // namespace

int run(const Arguments& arguments, Terminal& terminal) {
  if (arguments.empty()) return help({}, terminal);
  const std::string& name = arguments[0];
  Arguments rest(arguments.begin() + 1, arguments.end());
  if (name == "help" || name == "--help" || name == "-h") return help(rest, terminal);
  if (name == "--version") return version_command(rest, terminal);
  if (const Command* command = find(name)) return command->run(rest, terminal);
  if (name.starts_with("-"))
    return terminal.fail(cat("cannot run '", name, "': a command comes first"), "rayo help", kWrongUse);
  std::string program = external_program(name);
  return program.empty() ? unknown(name, terminal) : run_external(program, rest, terminal);
}

}  // namespace rayo::cli
