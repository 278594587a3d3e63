// How much of what workers print is kept on this node: so many bytes a file, so many together. Decides only: told the
// files' sizes, it says which are to be cut and which are to go.
//
//   LogBudget budget(LogLimits{});
//   budget.size_is("3f...out", 70 << 20);
//   auto verdict = budget.verdict();   // cut "3f...out"; carry it out, then size_is() or gone()
//
// Files of workers that have ended go first, the one that ended longest ago at their head; only where living ones alone
// are too much are these cut, the largest first. One owner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace rayo::raylet {

struct LogLimits {
  int64_t file_bytes = 64LL << 20;  // beyond, the older part of a file goes
  int64_t total_bytes = 1LL << 30;  // of all files of this node
  int64_t kept_at_cut = 1LL << 20;  // of the end of a file that is cut
};

class LogBudget {
 public:
  explicit LogBudget(LogLimits limits) : limits_(limits) {}

  void size_is(const std::string& file, int64_t bytes);
  // Its worker has ended: nothing more comes.
  void ended(const std::string& file);
  void gone(const std::string& file);

  struct Verdict {
    std::vector<std::string> remove;
    std::vector<std::string> cut;
  };
  Verdict verdict() const;
  int64_t total() const { return total_; }
  const LogLimits& limits() const { return limits_; }

 private:
  LogLimits limits_;
  std::map<std::string, int64_t> sizes_;
  std::deque<std::string> ended_;  // oldest first
  int64_t total_ = 0;
  int over_limit_ = 0;  // files larger than a file may be
};

}  // namespace rayo::raylet
