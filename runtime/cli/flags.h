// The flags of one command, declared and then read. A thin face of CLI11, so that only flags.cc compiles it.
//
//   std::string address;
//   bool json = false;
//   Flags flags("status", "What runs where, and what waits for what");
//   flags.text("--address", address, "HOST:PORT", "the cluster's head");
//   flags.on("--json", json, "one JSON document");
//   if (auto done = flags.read(arguments, terminal)) return *done;      // help was asked for, or wrong use
//
// Values are texts here: each command turns them into numbers and sizes with an error that says how to write
// them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/terminal.h"

namespace rayo::cli {

using Arguments = std::vector<std::string>;  // behind the command's name

class Flags {
 public:
  Flags(std::string command, std::string summary);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // `value` keeps what it held where the flag is not given.
  void text(const std::string& name, std::string& value, const std::string& shape, const std::string& help);
  // nullopt where not given: "asked for" differs from the default.
  void text(const std::string& name, std::optional<std::string>& value, const std::string& shape,
            const std::string& help);
  void texts(const std::string& name, std::vector<std::string>& values, const std::string& shape,
             const std::string& help);
  void on(const std::string& name, bool& value, const std::string& help);
  // An argument by position.
  void argument(const std::string& name, std::string& value, const std::string& help, bool required);
  // Taken, but named nowhere: for programs, and for what is planned.
  void hidden_text(const std::string& name, std::string& value);
  void hidden_on(const std::string& name, bool& value);

  // nullopt: go on. Else the exit code: --help printed the help, or the arguments are wrong and it was said.
  std::optional<int> read(const Arguments& arguments, Terminal& terminal);
  std::string help() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rayo::cli
