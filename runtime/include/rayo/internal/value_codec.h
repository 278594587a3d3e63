// How the types that Rayo knows become CBOR items and back. Not for users: <rayo/codec.h>.
//
// Of one aggregate type: an array whose first item is the hash of its shape (in a portable value, of its members
// alone). Numbers in a vector or array: a
// typed array (RFC 8746, little-endian) on write, on read a plain array too. optional and unique_ptr: null or
// the value (an array of none or one where the value can be null itself). variant: [index, value]. Durations
// and time points: the count of their unit.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <boost/pfr/core.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <rayo/internal/cbor.h>
#include <rayo/internal/shape.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {

template <class T>
void encode(Encoder& out, const T& value);
template <class T>
T decode(Decoder& in);

namespace internal {

static_assert(std::endian::native == std::endian::little, "typed arrays are written as they lie in memory");

// RFC 8746: 0b010'f's'e'll, e = 1 little-endian; of 8-bit integers e stays 0.
template <Number T>
inline constexpr uint64_t kTypedArrayTag = [] {
  constexpr unsigned size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  if (Real<T>) return 0b01010100u | (size - 1);
  return 0b01000000u | (std::is_signed_v<T> ? 0b1000u : 0u) | (sizeof(T) > 1 ? 0b100u : 0u) | size;
}();

// An aggregate's first bytes: the head of its array and the item of its hash.
template <class T>
struct AggregatePrefix {
  static constexpr size_t kFields = boost::pfr::tuple_size_v<T>;
  static constexpr size_t kHeadSize = kFields + 1 < 24 ? 1 : 2;
  static constexpr auto kBytes = [] {
    std::array<unsigned char, kHeadSize + 9> bytes{};
    if (kHeadSize == 1) {
      bytes[0] = static_cast<unsigned char>(0x80 + kFields + 1);
    } else {
      bytes[0] = 0x98;
      bytes[1] = static_cast<unsigned char>(kFields + 1);
    }
    bytes[kHeadSize] = 0x1b;
    for (size_t i = 0; i < 8; ++i)
      bytes[kHeadSize + 1 + i] = static_cast<unsigned char>(ShapeOf<T>::kHash >> (56 - 8 * i));
    return bytes;
  }();
};
static_assert(BOOST_PFR_USE_CPP17 == 1, "rayo needs Boost.PFR on structured bindings");

template <class T>
inline constexpr bool is_nullable = [] {
  constexpr Kind kind = kind_of<T>();
  return kind == Kind::kOptional || kind == Kind::kUnique || kind == Kind::kMonostate || kind == Kind::kOwn;
}();

// Throws TypeMismatch: the next item is no `expected` of this program; names what it is where that is known.
[[noreturn]] void other_shape(const Decoder& in, const char* expected);

inline std::span<const std::byte> bytes_of(const auto& container) {
  return std::as_bytes(std::span(container.data(), container.size()));
}

template <class T>
void encode_aggregate(Encoder& out, const T& value) {
  static_cast<void>(&ShapeOf<T>::kEntry);  // uses it, so that it registers
  if (out.portable())
    out.array(AggregatePrefix<T>::kFields);
  else
    out.raw(AggregatePrefix<T>::kBytes.data(), AggregatePrefix<T>::kBytes.size());
  boost::pfr::for_each_field(value, [&out](const auto& field) { encode(out, field); });
}

template <class T>
void encode_nullable(Encoder& out, const T& value) {
  using Inner = std::remove_cvref_t<decltype(*value)>;
  if constexpr (is_nullable<Inner>) {
    out.array(value ? 1 : 0);
  } else if (!value) {
    return out.null();
  }
  if (value) encode(out, *value);
}

template <class T>
void encode_nested(Encoder& out, const T& value) {
  constexpr Kind kind = kind_of<T>();
  Nesting nesting(out);
  if constexpr (kind == Kind::kSequence || kind == Kind::kSet || kind == Kind::kFixedArray) {
    out.array(value.size());
    for (auto&& item : value) encode<typename T::value_type>(out, item);
  } else if constexpr (kind == Kind::kMap) {
    out.map(value.size());
    for (const auto& [key, item] : value) {
      encode(out, key);
      encode(out, item);
    }
  } else if constexpr (kind == Kind::kOptional || kind == Kind::kUnique) {
    encode_nullable(out, value);
  } else if constexpr (kind == Kind::kVariant) {
    out.array(2);
    out.unsigned_integer(value.index());
    std::visit([&out](const auto& item) { encode(out, item); }, value);
  } else if constexpr (kind == Kind::kTuple) {
    out.array(std::tuple_size_v<T>);
    std::apply([&out](const auto&... items) { (encode(out, items), ...); }, value);
  } else {
    static_assert(kind == Kind::kAggregate);
    encode_aggregate(out, value);
  }
}

template <class T>
void encode_value(Encoder& out, const T& value) {
  constexpr Kind kind = kind_of<T>();
  if constexpr (kind == Kind::kBool) {
    out.boolean(value);
  } else if constexpr (kind == Kind::kInteger) {
    if constexpr (std::is_signed_v<T>)
      out.integer(static_cast<int64_t>(value));
    else
      out.unsigned_integer(static_cast<uint64_t>(value));
  } else if constexpr (kind == Kind::kReal) {
    out.real(value);
  } else if constexpr (kind == Kind::kEnum) {
    encode(out, static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (kind == Kind::kText) {
    out.text(value);
  } else if constexpr (kind == Kind::kMonostate) {
    out.null();
  } else if constexpr (kind == Kind::kDuration) {
    encode(out, value.count());
  } else if constexpr (kind == Kind::kTimePoint) {
    encode(out, value.time_since_epoch().count());
  } else if constexpr (kind == Kind::kBytes || kind == Kind::kFixedBytes) {
    out.bytes(bytes_of(value));
  } else if constexpr (kind == Kind::kNumbers || kind == Kind::kFixedNumbers) {
    out.tag(kTypedArrayTag<typename T::value_type>);
    out.bytes(bytes_of(value));
  } else {
    encode_nested(out, value);
  }
}

template <class T>
T decode_integer(Decoder& in) {
  if constexpr (std::is_signed_v<T>) {
    const int64_t number = in.integer();
    if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max()) in.out_of_range(number);
    return static_cast<T>(number);
  } else {
    const uint64_t number = in.unsigned_integer();
    if (number > std::numeric_limits<T>::max()) in.out_of_range(number);
    return static_cast<T>(number);
  }
}

// `resize(items)` answers where that many numbers go.
template <Number N>
void decode_numbers(Decoder& in, auto resize) {
  if (in.take_tag(kTypedArrayTag<N>)) {
    const auto bytes = in.bytes();
    if (bytes.size() % sizeof(N) != 0) in.mismatch("whole numbers of bytes a number");
    N* out = resize(bytes.size() / sizeof(N));
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    return;
  }
  const uint64_t items = in.array();  // at most as many as bytes are left
  N* out = resize(items);
  for (uint64_t i = 0; i < items; ++i) out[i] = decode<N>(in);
}

template <class T, size_t... I>
T decode_aggregate(Decoder& in, std::index_sequence<I...>) {
  static_cast<void>(&ShapeOf<T>::kEntry);
  if (in.portable())
    in.array_of(AggregatePrefix<T>::kFields);
  else if (!in.take_raw(AggregatePrefix<T>::kBytes.data(), AggregatePrefix<T>::kBytes.size()))
    other_shape(in, kTypeName<T>.data());
  return T{decode<boost::pfr::tuple_element_t<I, T>>(in)...};
}

template <class T>
T decode_container(Decoder& in) {
  constexpr Kind kind = kind_of<T>();
  T out;
  if constexpr (kind == Kind::kMap) {
    for (uint64_t left = in.map(); left > 0; --left) {
      auto key = decode<typename T::key_type>(in);
      out.emplace(std::move(key), decode<typename T::mapped_type>(in));
    }
  } else {
    uint64_t left = in.array();
    // No more room is made ahead than the bytes that are really there could fill.
    if constexpr (requires { out.reserve(left); })
      out.reserve(std::min<uint64_t>(left, 16 + in.left() / sizeof(typename T::value_type)));
    for (; left > 0; --left) {
      if constexpr (kind == Kind::kSet)
        out.insert(decode<typename T::key_type>(in));
      else
        out.push_back(decode<typename T::value_type>(in));
    }
  }
  return out;
}

template <class T, class Inner>
T decode_nullable(Decoder& in, auto make) {
  if constexpr (is_nullable<Inner>) {
    const uint64_t items = in.array();
    if (items > 1) in.mismatch("an array of none or one");
    if (items == 0) return T{};
  } else if (in.take_null()) {
    return T{};
  }
  return make(in);
}

template <class T, size_t... I>
T decode_variant(Decoder& in, std::index_sequence<I...>) {
  in.array_of(2);
  const uint64_t index = in.unsigned_integer();
  using Read = T (*)(Decoder&);
  static constexpr Read kReaders[] = {
      [](Decoder& from) { return T(std::in_place_index<I>, decode<std::variant_alternative_t<I, T>>(from)); }...};
  if (index >= sizeof...(I)) in.mismatch("the index of an alternative");
  return kReaders[index](in);
}

template <class T, size_t... I>
T decode_tuple(Decoder& in, std::index_sequence<I...>) {
  in.array_of(sizeof...(I));
  return T{decode<std::tuple_element_t<I, T>>(in)...};  // braces: from left to right
}

template <class T, size_t... I>
T decode_fixed_array(Decoder& in, std::index_sequence<I...>) {
  in.array_of(sizeof...(I));
  return T{(static_cast<void>(I), decode<typename T::value_type>(in))...};
}

template <class T>
T decode_nested(Decoder& in) {
  constexpr Kind kind = kind_of<T>();
  Nesting nesting(in);
  if constexpr (kind == Kind::kSequence || kind == Kind::kSet || kind == Kind::kMap) {
    return decode_container<T>(in);
  } else if constexpr (kind == Kind::kFixedArray) {
    return decode_fixed_array<T>(in, std::make_index_sequence<kArraySize<T>>{});
  } else if constexpr (kind == Kind::kOptional) {
    using Inner = typename T::value_type;
    return decode_nullable<T, Inner>(in, [](Decoder& from) { return T(std::in_place, decode<Inner>(from)); });
  } else if constexpr (kind == Kind::kUnique) {
    using Inner = typename T::element_type;
    return decode_nullable<T, Inner>(in, [](Decoder& from) { return std::make_unique<Inner>(decode<Inner>(from)); });
  } else if constexpr (kind == Kind::kVariant) {
    return decode_variant<T>(in, std::make_index_sequence<std::variant_size_v<T>>{});
  } else if constexpr (kind == Kind::kTuple) {
    return decode_tuple<T>(in, std::make_index_sequence<std::tuple_size_v<T>>{});
  } else {
    static_assert(kind == Kind::kAggregate);
    return decode_aggregate<T>(in, std::make_index_sequence<boost::pfr::tuple_size_v<T>>{});
  }
}

template <class T>
T decode_fixed_vector(Decoder& in) {
  T out;
  const auto exactly = [&](uint64_t items) {
    if (items != out.size()) in.mismatch(type_name<T>());
    return out.data();
  };
  if constexpr (kind_of<T>() == Kind::kFixedBytes) {
    const auto bytes = in.bytes();
    std::memcpy(exactly(bytes.size()), bytes.data(), bytes.size());
  } else {
    decode_numbers<typename T::value_type>(in, exactly);
  }
  return out;
}

template <class T>
T decode_vector(Decoder& in) {
  if constexpr (kind_of<T>() == Kind::kBytes) {
    const auto bytes = in.bytes();
    const auto* first = reinterpret_cast<const typename T::value_type*>(bytes.data());
    return T(first, first + bytes.size());
  } else {
    T out;
    decode_numbers<typename T::value_type>(in, [&out](uint64_t items) {
      out.resize(items);
      return out.data();
    });
    return out;
  }
}

template <class T>
T decode_value(Decoder& in) {
  constexpr Kind kind = kind_of<T>();
  if constexpr (kind == Kind::kBool) {
    return in.boolean();
  } else if constexpr (kind == Kind::kInteger) {
    if constexpr (std::is_same_v<T, std::byte>)
      return std::byte{decode_integer<unsigned char>(in)};
    else
      return decode_integer<T>(in);
  } else if constexpr (kind == Kind::kReal) {
    return static_cast<T>(in.real());
  } else if constexpr (kind == Kind::kEnum) {
    return static_cast<T>(decode<std::underlying_type_t<T>>(in));
  } else if constexpr (kind == Kind::kText) {
    return std::string(in.text());
  } else if constexpr (kind == Kind::kMonostate) {
    in.null();
    return {};
  } else if constexpr (kind == Kind::kDuration) {
    return T(decode<typename T::rep>(in));
  } else if constexpr (kind == Kind::kTimePoint) {
    return T(typename T::duration(decode<typename T::rep>(in)));
  } else if constexpr (kind == Kind::kBytes || kind == Kind::kNumbers) {
    return decode_vector<T>(in);
  } else if constexpr (kind == Kind::kFixedBytes || kind == Kind::kFixedNumbers) {
    return decode_fixed_vector<T>(in);
  } else {
    return decode_nested<T>(in);
  }
}

// ---- whole values: what an argument, a result or an object is ----

// May come with kPortableTag: not numbers, text and the like, which are portable as they are.
template <class T>
inline constexpr bool has_parts = [] {
  constexpr Kind kind = kind_of<T>();
  return kind == Kind::kOwn || kind == Kind::kNumbers || kind == Kind::kFixedNumbers || kind >= Kind::kFixedArray;
}();

template <class T>
void encode_portable(Encoder& out, const T& value) {
  if constexpr (has_parts<T>) out.raw(kPortableHead, sizeof kPortableHead);
  out.set_portable(true);
  encode(out, value);
  out.set_portable(false);
}

template <class T>
T decode_whole(Decoder& in) {
  if constexpr (has_parts<T>) in.set_portable(in.take_raw(kPortableHead, sizeof kPortableHead));
  return decode<T>(in);
}

}  // namespace internal
}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
