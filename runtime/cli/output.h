// Standard output that remembers why it could not be written: a result that was lost is a failed command.
//
//   Output output(STDOUT_FILENO);
//   std::ostream out(&output);
//   Terminal terminal(out, std::cerr, ...);
//   int code = run(..., terminal);
//   return output.finish(code, terminal);
//
// Of the thread that runs the command.
#pragma once

#include <array>
#include <streambuf>

#include "runtime/cli/terminal.h"

namespace rayo::cli {

class Output : public std::streambuf {
 public:
  explicit Output(int fd);

  // Writes what is left. The command's own exit code; kFailed, with the reason told, where it was kDone and output was
  // lost. A reader that had enough (`rayo logs X | head`) has lost nothing.
  int finish(int code, Terminal& terminal);

 protected:
  int_type overflow(int_type next) override;
  int sync() override;

 private:
  int fd_;
  int error_ = 0;  // errno of the first write that failed; nothing is written after it
  std::array<char, 8192> buffer_;
};

}  // namespace rayo::cli
