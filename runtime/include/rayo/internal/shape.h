// What kind of value a type is, and the 64-bit hash of its shape: its name and its members' types all the way
// down. Not for users.
#pragma once

#include <array>
#include <boost/pfr/core.hpp>
#include <boost/pfr/tuple_size.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <rayo/internal/type_name.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {

template <class T>
struct Codec;

namespace internal {

enum class Kind : uint8_t {
  kNone,  // cannot travel
  kOwn,   // by a Codec of the user's, of ObjectRef or of ActorHandle
  kBool,
  kInteger,
  kReal,
  kEnum,
  kText,
  kDuration,
  kTimePoint,
  kMonostate,
  kBytes,    // vector of bytes
  kNumbers,  // vector of arithmetic: one typed array (RFC 8746)
  kFixedBytes,
  kFixedNumbers,
  kFixedArray,  // std::array
  kSequence,
  kSet,
  kMap,
  kOptional,
  kUnique,
  kVariant,
  kTuple,
  kAggregate,
};

template <class T, template <class...> class Template>
inline constexpr bool is_a = false;
template <class... A, template <class...> class Template>
inline constexpr bool is_a<Template<A...>, Template> = true;

template <class T>
inline constexpr size_t kArraySize = 0;
template <class T, size_t N>
inline constexpr size_t kArraySize<std::array<T, N>> = N;
template <class T>
inline constexpr bool is_std_array = false;
template <class T, size_t N>
inline constexpr bool is_std_array<std::array<T, N>> = true;

template <class T>
concept ByteLike = std::same_as<T, std::byte> || std::same_as<T, unsigned char> || std::same_as<T, char>;
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8;
template <class T>
concept Real = std::same_as<T, float> || std::same_as<T, double>;
// Elements of a typed array.
template <class T>
concept Number = (Integer<T> && !ByteLike<T>) || Real<T>;

template <class T>
concept Sequence = requires(T container, typename T::value_type item) {
  container.push_back(std::move(item));
  container.size();
  container.begin();
};
template <class T>
concept KeyedMap = requires(T container, typename T::key_type key, typename T::mapped_type item) {
  container.emplace(std::move(key), std::move(item));
  container.size();
};
template <class T>
concept HasMapped = requires {
  typename T::mapped_type;
};
template <class T>
concept KeyedSet = (!HasMapped<T>)&&requires(T container, typename T::key_type key) {
  container.insert(std::move(key));
  container.size();
};

// Converts to bases of T alone: a T that can begin with it is no plain struct.
template <class T>
struct AnyBase {
  template <class U>
  requires(std::is_base_of_v<U, T> && !std::same_as<U, T>) operator U() const;
};
template <class T>
concept HasBase = requires {
  T{AnyBase<T>{}};
};

template <class T>
concept Duration = requires {
  typename T::rep;
  typename T::period;
  T(std::declval<typename T::rep>());
};

// A vector or std::array of E: in one piece where it can be.
template <class E>
consteval Kind kind_of_elements(Kind bytes, Kind numbers, Kind others) {
  return ByteLike<E> ? bytes : Number<E> ? numbers : others;
}

template <class T>
consteval Kind kind_of_class() {
  if constexpr (std::is_same_v<T, std::string>)
    return Kind::kText;
  else if constexpr (std::is_same_v<T, std::monostate>)
    return Kind::kMonostate;
  else if constexpr (is_a<T, std::chrono::time_point>)
    return Kind::kTimePoint;
  else if constexpr (Duration<T>)
    return Kind::kDuration;
  else if constexpr (is_std_array<T> && kArraySize<T> == 0)
    return Kind::kFixedArray;
  else if constexpr (is_std_array<T>)
    return kind_of_elements<typename T::value_type>(Kind::kFixedBytes, Kind::kFixedNumbers, Kind::kFixedArray);
  else if constexpr (is_a<T, std::vector>)
    return kind_of_elements<typename T::value_type>(Kind::kBytes, Kind::kNumbers, Kind::kSequence);
  else if constexpr (is_a<T, std::optional>)
    return Kind::kOptional;
  else if constexpr (is_a<T, std::unique_ptr>)
    return Kind::kUnique;
  else if constexpr (is_a<T, std::variant>)
    return Kind::kVariant;
  else if constexpr (is_a<T, std::pair> || is_a<T, std::tuple>)
    return Kind::kTuple;
  else if constexpr (KeyedMap<T>)
    return Kind::kMap;
  else if constexpr (KeyedSet<T>)
    return Kind::kSet;
  else if constexpr (Sequence<T>)
    return Kind::kSequence;
  else if constexpr (std::is_aggregate_v<T> && !HasBase<T>)
    return Kind::kAggregate;
  else
    return Kind::kNone;
}

template <class T>
concept HasOwnCodec = !requires {
  Codec<T>::kBuiltIn;
};

template <class T>
consteval Kind kind_of() {
  if constexpr (!std::is_object_v<T> || std::is_pointer_v<T> || !std::is_same_v<T, std::remove_cv_t<T>>)
    return Kind::kNone;
  else if constexpr (HasOwnCodec<T>)
    return Kind::kOwn;
  else if constexpr (std::is_same_v<T, bool>)
    return Kind::kBool;
  else if constexpr (std::is_same_v<T, std::byte> || Integer<T>)
    return Kind::kInteger;
  else if constexpr (Real<T>)
    return Kind::kReal;
  else if constexpr (std::is_enum_v<T>)
    return Kind::kEnum;
  else if constexpr (std::is_class_v<T>)
    return kind_of_class<T>();
  else
    return Kind::kNone;
}

// A unique_ptr to an array, or with a deleter of its own, cannot be made at the other end.
template <class T>
inline constexpr bool is_plain_unique = false;
template <class T>
inline constexpr bool is_plain_unique<std::unique_ptr<T>> = !std::is_array_v<T>;

constexpr uint64_t mix(uint64_t seed, uint64_t part) {
  if (seed == 0 || part == 0) return 0;
  uint64_t hash = (seed ^ (part + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2))) * 0xd6e8feb86659fd93ull;
  hash ^= hash >> 32;
  return hash == 0 ? 1 : hash;
}

// 0: cannot travel. `Outer`: the aggregates that are being looked into, so that a type may hold itself.
template <class T, class... Outer>
consteval uint64_t shape_of();

template <class T, class... Outer, size_t... I>
consteval uint64_t shape_of_members(std::index_sequence<I...>) {
  uint64_t shape = hash_name(type_name<T>());
  ((shape = mix(shape, shape_of<boost::pfr::tuple_element_t<I, T>, T, Outer...>())), ...);
  return shape;
}
template <class T, class... Outer, size_t... I>
consteval uint64_t shape_of_alternatives(std::index_sequence<I...>, auto element) {
  uint64_t shape = hash_name("one of");
  ((shape = mix(shape, shape_of<typename decltype(element.template operator()<I>())::type, Outer...>())), ...);
  return shape;
}

template <class T, class... Outer>
consteval uint64_t shape_of() {
  constexpr Kind kind = kind_of<T>();
  constexpr uint64_t name = hash_name(type_name<T>());
  if constexpr (kind == Kind::kNone)
    return 0;
  else if constexpr ((std::same_as<T, Outer> || ...))
    return name;
  else if constexpr (kind == Kind::kAggregate)
    return shape_of_members<T, Outer...>(std::make_index_sequence<boost::pfr::tuple_size_v<T>>{});
  else if constexpr (kind == Kind::kSequence || kind == Kind::kOptional || kind == Kind::kFixedArray)
    return mix(name, shape_of<typename T::value_type, Outer...>());
  else if constexpr (kind == Kind::kSet)
    return mix(name, shape_of<typename T::key_type, Outer...>());
  else if constexpr (kind == Kind::kMap)
    return mix(mix(name, shape_of<typename T::key_type, Outer...>()), shape_of<typename T::mapped_type, Outer...>());
  else if constexpr (kind == Kind::kUnique)
    return is_plain_unique<T> ? mix(name, shape_of<typename T::element_type, Outer...>()) : 0;
  else if constexpr (kind == Kind::kTuple)
    return shape_of_alternatives<T, Outer...>(std::make_index_sequence<std::tuple_size_v<T>>{}, []<size_t I>() {
      return std::type_identity<std::tuple_element_t<I, T>>{};
    });
  else if constexpr (kind == Kind::kVariant)
    return shape_of_alternatives<T, Outer...>(std::make_index_sequence<std::variant_size_v<T>>{}, []<size_t I>() {
      return std::type_identity<std::variant_alternative_t<I, T>>{};
    });
  else
    return name;
}

template <class T>
consteval bool travels() {
  return shape_of<T>() != 0;
}

// The aggregates of this program by the hash of their shape, for the text of TypeMismatch. Filled before
// main.
struct Shape {
  uint64_t hash = 0;
  const char* name = nullptr;
  Shape* next = nullptr;
};
void register_shape(Shape& shape);
// Null where this program has no such aggregate.
const char* find_shape(uint64_t hash);

struct RegisteredShape : Shape {
  RegisteredShape(uint64_t own_hash, const char* own_name) : Shape{own_hash, own_name} { register_shape(*this); }
};

template <class T>
struct ShapeOf {
  // The top bit is set, so that its CBOR item always has 9 bytes.
  static constexpr uint64_t kHash = shape_of<T>() | 1ull << 63;
  static inline const RegisteredShape kEntry{kHash, kTypeName<T>.data()};
};

}  // namespace internal
}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
