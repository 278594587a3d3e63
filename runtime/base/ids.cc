#include "runtime/base/ids.h"

#include <sys/random.h>

#include "runtime/base/check.h"

namespace rayo::base {

uint64_t random_bits() {
  uint64_t bits = 0;
  RAYO_CHECK(getrandom(&bits, sizeof bits, 0) == sizeof bits,
             "getrandom gives 8 bytes at once on every Linux since 3.17");
  return bits;
}

}  // namespace rayo::base

namespace rayo {
inline namespace v0 {

void internal::append_hex(std::string& out, uint64_t word) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) out.push_back(kDigits[(word >> shift) & 15]);
}

std::optional<uint64_t> internal::parse_hex(std::string_view digits) {
  if (digits.size() != 16) return std::nullopt;
  uint64_t word = 0;
  for (char c : digits) {
    int value = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (value < 0) return std::nullopt;
    word = word << 4 | static_cast<uint64_t>(value);
  }
  return word;
}

std::string ObjectId::hex() const {
  std::string out;
  out.reserve(48);
  for (uint64_t word : {home, process, counter}) internal::append_hex(out, word);
  return out;
}

std::optional<ObjectId> ObjectId::from_hex(std::string_view text) {
  if (text.size() != 48) return std::nullopt;
  auto home = internal::parse_hex(text.substr(0, 16));
  auto process = internal::parse_hex(text.substr(16, 16));
  auto counter = internal::parse_hex(text.substr(32));
  if (!home || !process || !counter) return std::nullopt;
  return ObjectId{*home, *process, *counter};
}

}  // namespace v0
}  // namespace rayo
