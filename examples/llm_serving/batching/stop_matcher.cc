#include "examples/llm_serving/batching/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace serving {
namespace {

// The length of the character that begins with `lead`; 0: none begins so.
size_t length_by_lead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

// Whether `byte` can be the second byte after `lead`: no overlong forms, no surrogates, nothing above U+10FFFF.
bool fits_second(unsigned char lead, unsigned char byte) {
  switch (lead) {
    case 0xE0:
      return byte >= 0xA0 && byte <= 0xBF;
    case 0xED:
      return byte >= 0x80 && byte <= 0x9F;
    case 0xF0:
      return byte >= 0x90 && byte <= 0xBF;
    case 0xF4:
      return byte >= 0x80 && byte <= 0x8F;
    default:
      return byte >= 0x80 && byte <= 0xBF;
  }
}

struct Character {
  size_t bytes = 0;  // of the longest part that is well formed
  bool whole = false;
};

Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = length_by_lead(byte(at));
  if (length == 0) return {1, false};
  size_t have = 1;
  while (have < length && at + have < text.size()) {
    const unsigned char next = byte(at + have);
    if (have == 1 ? !fits_second(byte(at), next) : (next & 0xC0) != 0x80) return {have, false};
    ++have;
  }
  return {have, have == length};
}

// The longest end of `text` that is a beginning of `stop`, and not all of it.
size_t possible_stop(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == stop.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

size_t incomplete_tail(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t at = text.size() - back;
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    const Character character = character_at(text, at);
    return !character.whole && character.bytes == back && length_by_lead(static_cast<unsigned char>(text[at])) > 0
               ? back
               : 0;
  }
  return 0;
}

std::string repaired(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.whole) {
      out.append(text.substr(at, character.bytes));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    at += character.bytes;
  }
  return out;
}

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::release(size_t count) {
  std::string out = repaired(std::string_view(held_).substr(0, count));
  held_.erase(0, count);
  return out;
}

std::string StopMatcher::push(std::string_view bytes) {
  if (stopped_) return "";
  held_.append(bytes);
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    held_.resize(first);
    return release(first);
  }
  size_t keep = 0;
  for (const std::string& stop : stops_) keep = std::max(keep, possible_stop(held_, stop));
  const std::string_view certain = std::string_view(held_).substr(0, held_.size() - keep);
  return release(certain.size() - incomplete_tail(certain));
}

std::string StopMatcher::finish() { return release(held_.size()); }

}  // namespace serving
