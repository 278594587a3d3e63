#include "runtime/worker/line_folder.h"

#include <algorithm>
#include <utility>

namespace rayo::worker {

std::string_view last_state(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const size_t at = line.rfind('\r');
  return at == std::string_view::npos ? line : line.substr(at + 1);
}

bool LineFolder::take(Line line, int64_t pid, base::TimePoint now) {
  auto found = seen_.find(line);
  if (found != seen_.end() && now < found->second.end) {
    if (found->second.pid == pid) return true;
    ++found->second.folded;
    return false;
  }
  if (found != seen_.end() && found->second.folded != 0) return true;  // its count has yet to be told
  if (found == seen_.end() && seen_.size() >= kMostLines) return true;
  seen_.insert_or_assign(std::move(line), Seen{pid, now + kWindow, 0});
  return true;
}

std::vector<LineFolder::Folded> LineFolder::due(base::TimePoint now) {
  std::vector<Folded> due;
  for (auto at = seen_.begin(); at != seen_.end();) {
    if (now < at->second.end) {
      ++at;
      continue;
    }
    if (at->second.folded != 0) due.push_back({at->first, at->second.folded});
    at = seen_.erase(at);
  }
  return due;
}

base::TimePoint LineFolder::next_due() const {
  base::TimePoint next = base::kForever;
  for (const auto& [line, seen] : seen_)
    if (seen.folded != 0) next = std::min(next, seen.end);
  return next;
}

}  // namespace rayo::worker
