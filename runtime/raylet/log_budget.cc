#include "runtime/raylet/log_budget.h"

#include <algorithm>

namespace rayo::raylet {

void LogBudget::size_is(const std::string& file, int64_t bytes) {
  int64_t& size = sizes_[file];
  total_ += bytes - size;
  over_limit_ += (bytes > limits_.file_bytes) - (size > limits_.file_bytes);
  size = bytes;
}

void LogBudget::ended(const std::string& file) {
  if (sizes_.contains(file) && std::ranges::find(ended_, file) == ended_.end()) ended_.push_back(file);
}

void LogBudget::gone(const std::string& file) {
  auto found = sizes_.find(file);
  if (found == sizes_.end()) return;
  total_ -= found->second;
  over_limit_ -= found->second > limits_.file_bytes;
  sizes_.erase(found);
  std::erase(ended_, file);
}

LogBudget::Verdict LogBudget::verdict() const {
  Verdict out;
  if (total_ <= limits_.total_bytes && over_limit_ == 0) return out;
  int64_t left = total_;
  for (const auto& [file, bytes] : sizes_) {
    if (bytes <= limits_.file_bytes) continue;
    out.cut.push_back(file);
    left -= bytes - limits_.kept_at_cut;
  }
  for (const std::string& file : ended_) {
    if (left <= limits_.total_bytes) return out;
    // What it will have when it was cut, as above.
    const int64_t bytes = sizes_.at(file);
    left -= bytes > limits_.file_bytes ? limits_.kept_at_cut : bytes;
    std::erase(out.cut, file);
    out.remove.push_back(file);
  }
  std::vector<std::pair<int64_t, std::string>> living;
  for (const auto& [file, bytes] : sizes_) {
    if (bytes <= limits_.file_bytes && bytes > limits_.kept_at_cut &&
        std::ranges::find(out.remove, file) == out.remove.end())
      living.emplace_back(bytes, file);
  }
  std::ranges::sort(living, std::greater());
  for (const auto& [bytes, file] : living) {
    if (left <= limits_.total_bytes) break;
    left -= bytes - limits_.kept_at_cut;
    out.cut.push_back(file);
  }
  return out;
}

}  // namespace rayo::raylet
