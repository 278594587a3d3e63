// What sampling cuts off before the draw, on scores that are logits / temperature.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "examples/llm_serving/protocol.h"

namespace serving {

struct Candidate {
  Token token = 0;
  float score = 0;
};

// The place of the greatest, of equal ones the first; 0 where there is none (nothing but NaN). Of a whole vocabulary, for each token
// of each request: as std::max_element, in a tenth of its time.
size_t greatest(std::span<const float> values);

// The best `count`.
void keep_top_k(std::vector<Candidate>& candidates, size_t count);
// Those whose surprise is nearest to the expected one, until they hold `p` of the probability.
void keep_typical(std::vector<Candidate>& candidates, float p);
// The best that together hold `p` of the probability, the last of them included.
void keep_top_p(std::vector<Candidate>& candidates, float p);
// Those with at least `p` times the best one's probability.
void keep_min_p(std::vector<Candidate>& candidates, float p);

}  // namespace serving
