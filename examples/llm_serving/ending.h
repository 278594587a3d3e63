// What a command ends with.
#pragma once

#include <string>

namespace serving {

// An exit code, and where it is not 0, two lines for people.
struct Ending {
  int code = 0;
  std::string what;
  std::string next;
};

inline Ending failed(std::string what, std::string next) {
  return {.code = 1, .what = std::move(what), .next = std::move(next)};
}

}  // namespace serving
