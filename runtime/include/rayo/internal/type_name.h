// Names of types and functions as the compiler spells them, and hashes of names. Not for users.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rayo {
inline namespace v0 {
namespace internal {

// FNV-1a with a final mix, so that near names lie far apart. The same in every process and compiler.
constexpr uint64_t hash_name(std::string_view name, uint64_t seed = 0xcbf29ce484222325ull) {
  uint64_t hash = seed;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93ull;
  return hash ^ hash >> 32;
}

template <class T>
constexpr std::string_view spelled_type() {
  return __PRETTY_FUNCTION__;
}

template <auto F>
constexpr std::string_view spelled_value() {
  return __PRETTY_FUNCTION__;
}

// What stands around the name in the compiler's spelling, measured on a known one.
struct Margins {
  size_t before;
  size_t after;
};
inline constexpr Margins kTypeMargins = [] {
  constexpr std::string_view text = spelled_type<double>();
  constexpr size_t at = text.find("double");
  return Margins{at, text.size() - at - 6};
}();
inline constexpr Margins kValueMargins = [] {
  constexpr std::string_view text = spelled_value<417>();
  constexpr size_t at = text.find("417");
  return Margins{at, text.size() - at - 3};
}();

// "Counter", "std::vector<int>".
template <class T>
constexpr std::string_view type_name() {
  std::string_view text = spelled_type<T>();
  return text.substr(kTypeMargins.before, text.size() - kTypeMargins.before - kTypeMargins.after);
}

// "half", "Counter::add".
template <auto F>
constexpr std::string_view value_name() {
  std::string_view text = spelled_value<F>();
  text = text.substr(kValueMargins.before, text.size() - kValueMargins.before - kValueMargins.after);
  return text.starts_with('&') ? text.substr(1) : text;
}

template <size_t N>
constexpr std::array<char, N + 1> terminated(std::string_view name) {
  std::array<char, N + 1> out{};
  for (size_t i = 0; i < N; ++i) out[i] = name[i];
  return out;
}

// The same names with a terminating zero, for the registry.
template <class T>
inline constexpr auto kTypeName = terminated<type_name<T>().size()>(type_name<T>());
template <auto F>
inline constexpr auto kValueName = terminated<value_name<F>().size()>(value_name<F>());

}  // namespace internal
}  // namespace v0
}  // namespace rayo
