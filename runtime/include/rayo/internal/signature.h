// What a function or method takes and answers, and whether a call written somewhere fits it. Not for users.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <rayo/codec.h>
#include <rayo/object.h>

namespace rayo {
inline namespace v0 {
namespace internal {

template <class... T>
struct Types {};

template <class R, class C, class... P>
struct SignatureOf {
  using Result = R;
  using Class = C;
  using Parameters = Types<P...>;
  static constexpr size_t kCount = sizeof...(P);
};

template <class F>
struct Signature;  // only of functions and methods
template <class R, class... P>
struct Signature<R (*)(P...)> : SignatureOf<R, void, P...> {};
template <class R, class... P>
struct Signature<R (*)(P...) noexcept> : SignatureOf<R, void, P...> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...)> : SignatureOf<R, C, P...> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) noexcept> : SignatureOf<R, C, P...> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const> : SignatureOf<R, C, P...> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const noexcept> : SignatureOf<R, C, P...> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...)&> : SignatureOf<R, C, P...> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...)& noexcept> : SignatureOf<R, C, P...> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const&> : SignatureOf<R, C, P...> {};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const& noexcept> : SignatureOf<R, C, P...> {};

template <auto F>
inline constexpr bool is_function =
    std::is_pointer_v<decltype(F)>&& std::is_function_v<std::remove_pointer_t<decltype(F)>>;
template <auto F>
inline constexpr bool is_method = std::is_member_function_pointer_v<decltype(F)>;

template <class T>
inline constexpr bool is_object_ref = false;
template <class T>
inline constexpr bool is_object_ref<ObjectRef<T>> = true;

template <class T>
struct ValueOf {
  using type = T;
};
template <class T>
struct ValueOf<ObjectRef<T>> {
  using type = T;
};

// A parameter as the callee holds it while its code runs. A string_view looks into the message.
template <class P>
using Held = std::remove_cvref_t<P>;
// The type that travels for it.
template <class P>
using Sent = std::conditional_t<std::is_same_v<Held<P>, std::string_view>, std::string, Held<P>>;

template <class P>
inline constexpr bool takes_copy = !std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>;

// The value of a ref to R may stand for a parameter P: the same type, or numbers of which P holds the wider
// kind (a value out of range is a TypeMismatch when the call runs).
template <class P, class R>
inline constexpr bool value_fits = std::is_same_v<Sent<P>, R> || (Integer<Held<P>> && Integer<R>) ||
                                   (Real<Held<P>> && (Integer<R> || Real<R>));

template <class P, class A>
inline constexpr bool argument_fits = [] {
  using Argument = std::remove_cvref_t<A>;
  if constexpr (is_object_ref<Argument> && !is_object_ref<Held<P>>)
    return value_fits<P, typename ValueOf<Argument>::type>;
  else  // the same type is encoded where it lies: it need not be copyable
    return std::is_same_v<Argument, Sent<P>> || std::is_convertible_v<A, Held<P>>;
}();

template <class R>
inline constexpr bool is_result = std::is_void_v<R> || Value<std::remove_cvref_t<R>>;

template <class P>
consteval void check_parameter() {
  static_assert(takes_copy<P>,
                "rayo: a parameter of a remote function is a reference to non-const; the callee would change "
                "a copy. Take it by value or by const reference and return what has changed");
  static_assert(Value<Sent<P>>,
                "rayo: a parameter's type cannot travel between processes. Make it an aggregate (a struct without "
                "constructors, bases and private members) of types that can, or specialise rayo::Codec for it "
                "(<rayo/codec.h>)");
}

template <class R, class... P>
consteval void check_signature(Types<P...>) {
  static_assert(is_result<R>,
                "rayo: the result's type cannot travel between processes. Make it an aggregate (a struct without "
                "constructors, bases and private members) of types that can, or specialise rayo::Codec for it "
                "(<rayo/codec.h>)");
  (check_parameter<P>(), ...);
}

template <class P, class A>
consteval void check_argument() {
  static_assert(argument_fits<P, A>,
                "rayo: an argument does not fit the parameter's type: it must convert to it, or be an "
                "ObjectRef of that type");
}

}  // namespace internal
}  // namespace v0
}  // namespace rayo
