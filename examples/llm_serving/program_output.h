// What another program says.
#pragma once

#include <string>
#include <vector>

namespace serving {

struct ProgramOutput {
  int code = -1;     // its exit code; -1: it did not start, or a signal ended it
  std::string text;  // of its stdout
};

// Runs a program, found on PATH, to its end; what it says on stderr goes nowhere.
ProgramOutput output_of(std::vector<std::string> words);

}  // namespace serving
