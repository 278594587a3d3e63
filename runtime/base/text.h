// Building texts: cat("port ", 6379, " is taken"). Debian's Abseil has a string_view of its own that std::string_view
// does not convert to, so its StrCat is not used here.
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace rayo::base {

inline void append(std::string& out, std::string_view text) { out.append(text); }
inline void append(std::string& out, char c) { out.push_back(c); }
// A template, so that a string literal does not decay to it.
inline void append(std::string& out, std::same_as<bool> auto yes) { out.append(yes ? "true" : "false"); }
template <std::integral T>
requires(!std::same_as<T, bool> && !std::same_as<T, char>) void append(std::string& out, T number) {
  char digits[24];
  auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
}
template <std::floating_point T>
void append(std::string& out, T number) {  // the shortest text that reads back as the same number
  char digits[32];
  auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
}

template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

// "a, b, c"
std::string join(const std::vector<std::string>& parts, std::string_view separator);
// Empty pieces are kept: split("a,,b", ',') has three.
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
// The end of a text from its last `lines` lines on; all of it for -1. An end of line at its end begins no further one.
std::string_view last_lines(std::string_view text, int64_t lines);
std::string lower(std::string_view text);
// printf's "%.*f".
std::string fixed(double number, int digits);
// The same text with what is not UTF-8 replaced by U+FFFD: JSON holds nothing else, and what users' programs print, throw and
// name is any bytes.
std::string as_utf8(std::string_view text);
bool is_utf8(std::string_view text);

}  // namespace rayo::base
