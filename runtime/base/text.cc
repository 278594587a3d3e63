#include "runtime/base/text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace rayo::base {
namespace {

// Bytes of the UTF-8 character at the beginning; 0 where there is none.
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool beyond = (byte(0) == 0xed && byte(1) >= 0xa0) || (byte(0) == 0xf4 && byte(1) >= 0x90);
  return overlong || beyond ? 0 : size;
}

}  // namespace

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != parts.data()) out.append(separator);
    out.append(part);
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  for (size_t begin = 0;;) {
    size_t end = text.find(separator, begin);
    pieces.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return pieces;
    begin = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string fixed(double number, int digits) {
  char buffer[64];
  int length = std::snprintf(buffer, sizeof buffer, "%.*f", digits, number);
  return std::string(buffer, static_cast<size_t>(length));
}

std::string as_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = character(text);
    out.append(size > 0 ? text.substr(0, size) : std::string_view("\xef\xbf\xbd"));
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

bool is_utf8(std::string_view text) {
  for (size_t size = 0; !text.empty(); text.remove_prefix(size))
    if (size = character(text); size == 0) return false;
  return true;
}

std::string_view last_lines(std::string_view text, int64_t lines) {
  if (lines < 0) return text;
  size_t at = text.ends_with('\n') ? text.size() - 1 : text.size();
  for (int64_t i = 0; i < lines; ++i) {
    if (at == 0) return text;
    at = text.rfind('\n', at - 1);
    if (at == std::string_view::npos) return text;
  }
  return lines == 0 ? std::string_view() : text.substr(at + 1);
}

}  // namespace rayo::base
