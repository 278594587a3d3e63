// What `rayo logs --json` prints: one JSON object for each line of a log.
//
//   {"schema": 1, "at": 1764590318.25, "node": "4f2a...", "pid": 4711, "name": "Counter", "stream": "stdout", "text": "hello"}
//
//   JsonLog log(terminal.out(), origin);
//   log.add(bytes, error);       // as they come, also with half a line at the end
//   log.finish();                // the last line need not have ended
//
// Of the thread that runs the command.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace rayo::cli {

struct LogOrigin {
  std::string node{};   // id; "": not known
  int64_t pid = 0;      // 0: not known, or it has ended
  std::string name{};   // class, function or daemon
  bool daemon = false;  // one of ours: all of it is standard error, and its lines begin with their time
};

class JsonLog {
 public:
  JsonLog(std::ostream& out, LogOrigin origin) : out_(out), origin_(std::move(origin)) {}

  void add(std::string_view bytes, bool error);
  void finish();

 private:
  void print(std::string_view line, bool error);

  std::ostream& out_;
  LogOrigin origin_;
  std::array<std::string, 2> rest_;  // of a line that has not ended: standard output, standard error
};

}  // namespace rayo::cli
