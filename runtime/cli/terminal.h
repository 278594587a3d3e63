// Where a command writes: results to `out`, messages to `err`; an error is exactly two lines on `err`.
//
//   return terminal.fail(status, kWrongUse);        // "rayo: WHAT: CAUSE" and "try: ..."; gives the exit code
//
// Of the thread that runs the command. Tests give it string streams.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/cli/exit_code.h"

namespace rayo::cli {

class Terminal {
 public:
  Terminal(std::ostream& out, std::ostream& err, bool interactive) : out_(out), err_(err), interactive_(interactive) {}

  std::ostream& out() { return out_; }
  // Output is a terminal: colours and repainting make sense, and the user can be asked.
  bool interactive() const { return interactive_; }

  void note(std::string_view text);
  int fail(const base::Status& status, ExitCode code);
  int fail(std::string_view what, std::string_view next_step, ExitCode code);

  // A secret, typed without echo; "" where there is no terminal to ask on.
  std::string ask_secret(std::string_view question);

 private:
  std::ostream& out_;
  std::ostream& err_;
  bool interactive_;
};

// A piece of one line as a terminal may be given it: programs choose names and print lines, and what is no UTF-8 or a control
// character (which moves the cursor, or ends the row) is replaced. A tab or the end of a line becomes a blank.
std::string printable(std::string_view text);

// Columns two spaces apart, each as wide as its widest cell, made printable; the first row is the head. A last column is
// never padded.
std::string table(std::vector<std::vector<std::string>> rows);

}  // namespace rayo::cli
