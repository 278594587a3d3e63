// Values: what can be an argument, a result or an object, and how it travels (CBOR, RFC 8949).
//
// These travel as they are: arithmetic types, bool, enums, std::string, byte vectors, vector, deque, list,
// array, map, set and their unordered sisters, optional, variant, pair, tuple, unique_ptr, chrono durations
// and time points, ObjectRef, ActorHandle, and any aggregate of them: a struct without constructors, bases
// and private members. No macro, no registration.
//
//   struct Order { std::string item; std::vector<double> prices; std::optional<std::string> note; };
//
// An aggregate travels with a hash of its shape (its name, and its members' types all the way down); a
// receiver whose type has another shape gets TypeMismatch with both names. A type of any other kind is taught
// to travel by one specialisation:
//
//   template <>
//   struct rayo::Codec<Money> {
//     static void encode(rayo::Encoder& out, const Money& money) { rayo::encode(out, money.cents()); }
//     static Money decode(rayo::Decoder& in) { return Money(rayo::decode<int64_t>(in)); }
//   };
//
// (g++ 12 fails with an internal error on an aggregate whose member is initialised in place with a list of
// texts, as in `std::set<std::string> names{"a"};`: fill it where the value is made.)
//
// Limits: nesting to 64 levels, 2^32 items in one container. Decoding never trusts its input: whatever the
// bytes are, it ends with a value or with TypeMismatch. An Encoder or Decoder belongs to one thread and to
// one value.
#pragma once

#include <rayo/internal/cbor.h>
#include <rayo/internal/shape.h>
#include <rayo/internal/value_codec.h>

namespace rayo {
inline namespace v0 {

// How T travels. The primary template knows the types listed above; specialise it for your own.
template <class T>
struct Codec {
  static constexpr bool kBuiltIn = true;
  static void encode(Encoder& out, const T& value) { internal::encode_value(out, value); }
  static T decode(Decoder& in) { return internal::decode_value<T>(in); }
};

// T can be an argument, a result and an object.
template <class T>
concept Value = internal::travels<T>();

// Appends one value.
template <class T>
void encode(Encoder& out, const T& value) {
  static_assert(Value<T>,
                "rayo: this type cannot travel between processes. Make it an aggregate (a struct without "
                "constructors, bases and private members) of types that can, or specialise rayo::Codec "
                "for it (<rayo/codec.h>)");
  Codec<T>::encode(out, value);
}

// Reads the next value; TypeMismatch where it is none of T.
template <class T>
T decode(Decoder& in) {
  static_assert(Value<T>,
                "rayo: this type cannot travel between processes. Make it an aggregate (a struct without "
                "constructors, bases and private members) of types that can, or specialise rayo::Codec "
                "for it (<rayo/codec.h>)");
  return Codec<T>::decode(in);
}

}  // namespace v0
}  // namespace rayo
