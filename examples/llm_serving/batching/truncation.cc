#include "examples/llm_serving/batching/truncation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace serving {
namespace {

// Of equal ones the lower token first: the same everywhere.
bool better(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.token < b.token;
}

struct Mass {
  float best = 0;
  double sum = 0;  // of exp(score - best)

  double log_probability(const Candidate& candidate) const { return candidate.score - best - std::log(sum); }
};

Mass mass_of(const std::vector<Candidate>& candidates) {
  Mass mass;
  mass.best = std::min_element(candidates.begin(), candidates.end(), better)->score;
  for (const Candidate& candidate : candidates) mass.sum += std::exp(candidate.score - mass.best);
  return mass;
}

constexpr float kLeast = -std::numeric_limits<float>::infinity();

// In lanes, which one instruction compares together: no order of the values is lost by that.
float maximum(std::span<const float> values) {
  std::array<float, 16> lanes;
  lanes.fill(kLeast);
  size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    const float* const next = values.data() + i;
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      lanes[lane] = next[lane] > lanes[lane] ? next[lane] : lanes[lane];
  }
  for (; i < values.size(); ++i) lanes[0] = std::max(lanes[0], values[i]);
  return *std::max_element(lanes.begin(), lanes.end());
}

}  // namespace

size_t greatest(std::span<const float> values) {
  constexpr size_t kBlock = 1024;
  float most = kLeast;
  size_t block = 0;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const float here = maximum(values.subspan(begin, std::min(kBlock, values.size() - begin)));
    if (here > most) {
      most = here;
      block = begin;
    }
  }
  const auto found = std::find(values.begin() + static_cast<ptrdiff_t>(block), values.end(), most);
  return found == values.end() ? 0 : static_cast<size_t>(found - values.begin());
}

void keep_top_k(std::vector<Candidate>& candidates, size_t count) {
  if (candidates.size() <= count) return;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(count), candidates.end(), better);
  candidates.resize(count);
}

void keep_typical(std::vector<Candidate>& candidates, float p) {
  if (candidates.empty()) return;
  const Mass mass = mass_of(candidates);
  double entropy = 0;
  for (const Candidate& candidate : candidates) {
    const double log_p = mass.log_probability(candidate);
    entropy -= std::exp(log_p) * log_p;
  }
  const auto distance = [&](const Candidate& c) { return std::abs(-mass.log_probability(c) - entropy); };
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    const double x = distance(a), y = distance(b);
    return x != y ? x < y : a.token < b.token;
  });
  double together = 0;
  size_t count = 0;
  while (count < candidates.size() && (count == 0 || together < p))
    together += std::exp(mass.log_probability(candidates[count++]));
  candidates.resize(count);
}

void keep_top_p(std::vector<Candidate>& candidates, float p) {
  if (candidates.empty()) return;
  const Mass mass = mass_of(candidates);
  double together = 0;
  size_t count = 0, sorted = 0;
  while (count < candidates.size() && (count == 0 || together < p)) {
    if (count == sorted) {  // most often the first few hundred hold it all
      sorted = std::min(candidates.size(), std::max<size_t>(128, sorted * 8));
      const auto begin = candidates.begin();
      std::partial_sort(begin + static_cast<ptrdiff_t>(count), begin + static_cast<ptrdiff_t>(sorted), candidates.end(),
                        better);
    }
    together += std::exp(mass.log_probability(candidates[count++]));
  }
  candidates.resize(count);
}

void keep_min_p(std::vector<Candidate>& candidates, float p) {
  if (candidates.empty()) return;
  const float least = mass_of(candidates).best + std::log(p);
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.score < least; });
}

}  // namespace serving
