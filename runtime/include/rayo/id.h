// Identifiers. Node, process, actor, job and cluster ids are 128 random bits; an object's id says where it
// was minted.
//
//   rayo::ActorId id = handle.id();
//   std::puts(id.hex().c_str());                      // 32 hexadecimal digits
//   auto same = rayo::ActorId::from_hex(id.hex());    // std::optional: empty where the text is not an id
//
// Values: cheap to copy, compare and hash; a default-constructed id is nil (false). No thread rules, no
// errors.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {

namespace internal {
// Appends 16 lower-case hexadecimal digits.
void append_hex(std::string& out, uint64_t word);
// Reads exactly 16 hexadecimal digits.
std::optional<uint64_t> parse_hex(std::string_view digits);
}  // namespace internal

// 128 bits, typed by what they name: a node's id is no actor's.
template <class Tag>
struct Id {
  uint64_t high = 0;
  uint64_t low = 0;

  explicit operator bool() const { return (high | low) != 0; }
  friend auto operator<=>(const Id&, const Id&) = default;

  std::string hex() const {
    std::string out;
    out.reserve(32);
    internal::append_hex(out, high);
    internal::append_hex(out, low);
    return out;
  }

  static std::optional<Id> from_hex(std::string_view text) {
    if (text.size() != 32) return std::nullopt;
    auto high = internal::parse_hex(text.substr(0, 16));
    auto low = internal::parse_hex(text.substr(16));
    if (!high || !low) return std::nullopt;
    return Id{*high, *low};
  }
};

using NodeId = Id<struct NodeTag>;
using ProcessId = Id<struct ProcessTag>;
using ActorId = Id<struct ActorTag>;
using JobId = Id<struct JobTag>;
using ClusterId = Id<struct ClusterTag>;
using LeaseId = Id<struct LeaseTag>;
using PackageId = Id<struct PackageTag>;  // XXH3-128 of the program's content

// An object: 64 bits of the node of the process that minted it (its home), 64 of that process, and a counter.
struct ObjectId {
  uint64_t home = 0;
  uint64_t process = 0;
  uint64_t counter = 0;

  explicit operator bool() const { return (home | process | counter) != 0; }
  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;

  std::string hex() const;  // 48 digits
  static std::optional<ObjectId> from_hex(std::string_view text);
};

}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop

template <class Tag>
struct std::hash<rayo::Id<Tag>> {
  size_t operator()(const rayo::Id<Tag>& id) const noexcept { return id.high ^ (id.low * 0x9e3779b97f4a7c15ull); }
};

template <>
struct std::hash<rayo::ObjectId> {
  size_t operator()(const rayo::ObjectId& id) const noexcept {
    return (id.home ^ (id.process << 1)) + id.counter * 0x9e3779b97f4a7c15ull;
  }
};
