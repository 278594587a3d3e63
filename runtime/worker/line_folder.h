// What workers print alike is told once: the first line as it comes, and of those that other workers of the same name
// print within kWindow after it the number.
//
//   if (folder.take({source, text, error}, pid, now)) show(line);
//   for (const LineFolder::Folded& folded : folder.due(now)) show(folded.line, folded.times);
//
// A worker that says the same twice is shown twice: that is its own doing. A progress bar (text that goes back to the
// line's start) is its last state. Pure: time is passed in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"

namespace rayo::worker {

// A progress bar's last state; any other line unchanged.
std::string_view last_state(std::string_view line);

class LineFolder {
 public:
  static constexpr base::Duration kWindow = std::chrono::seconds(5);
  static constexpr size_t kMostLines = 1000;  // remembered at a time; more are shown as they come

  struct Line {
    std::string source;
    std::string text;
    bool error = false;
    auto operator<=>(const Line&) const = default;
  };
  struct Folded {
    Line line;
    int64_t times = 0;
  };

  // Whether to show it now.
  bool take(Line line, int64_t pid, base::TimePoint now);
  // Lines whose window is over and that came again in it.
  std::vector<Folded> due(base::TimePoint now);
  // When `due` may answer something; kForever: nothing waits.
  base::TimePoint next_due() const;

 private:
  struct Seen {
    int64_t pid = 0;
    base::TimePoint end;
    int64_t folded = 0;
  };
  std::map<Line, Seen> seen_;
};

}  // namespace rayo::worker
