// Both ends of a call: the caller's arguments become bytes, the callee's entry turns them into a call of the
// user's function. Naming an entry registers its function before main. Not for users.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <rayo/internal/registry.h>
#include <rayo/internal/signature.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {
namespace internal {

// ---- the caller ----

// The arguments of one call, encoded. Refs among them are not copied: the caller's outlive the call to the
// backend.
template <size_t kRefs>
struct Arguments {
  explicit Arguments(Backend& owner) : backend(owner) {}

  CallRequest request(uint64_t function) const {
    return {.function = function,
            .arguments = encoded.view(),
            .refs = {refs.data(), count},
            .inner_refs = encoded.inner_refs(),
            .inner_actors = encoded.inner_actors()};
  }

  Backend& backend;
  Encoder encoded;
  std::array<ObjectHandle, kRefs> refs{};
  size_t count = 0;
};

template <class P, class A, size_t kRefs>
void encode_argument(Arguments<kRefs>& to, const A& argument) {
  if constexpr (is_object_ref<A> && !is_object_ref<Held<P>>) {
    to.refs[to.count] = argument.counted().handle(to.backend);
    to.encoded.tag(kRefTag);
    to.encoded.unsigned_integer(to.count++);
  } else if constexpr (std::is_same_v<A, Sent<P>>) {
    encode(to.encoded, argument);
  } else if constexpr (std::is_same_v<Sent<P>, std::string> && std::is_convertible_v<const A&, std::string_view>) {
    to.encoded.text(std::string_view(argument));
  } else {
    encode(to.encoded, static_cast<Sent<P>>(argument));
  }
}

template <class... A>
inline constexpr size_t kRefCount = (size_t{0} + ... + size_t{is_object_ref<A>});

template <size_t kRefs, class... P, class... A>
void encode_arguments(Arguments<kRefs>& to, Types<P...>, const A&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A),
                "rayo: the call has another number of arguments than the function (default arguments must be "
                "written out)");
  to.encoded.array(sizeof...(A));
  if constexpr (sizeof...(P) == sizeof...(A)) {
    (check_argument<P, const A&>(), ...);
    if constexpr ((argument_fits<P, const A&> && ...)) (encode_argument<P>(to, arguments), ...);
  }
}

// An argument of a call by name, whose parameter nobody here knows.
template <class A, size_t kRefs>
void encode_portable_argument(Arguments<kRefs>& to, const A& argument) {
  if constexpr (is_object_ref<A>) {
    to.refs[to.count] = argument.counted().handle(to.backend);
    to.encoded.tag(kRefTag);
    to.encoded.unsigned_integer(to.count++);
  } else if constexpr (std::is_convertible_v<const A&, std::string_view>) {
    to.encoded.text(std::string_view(argument));
  } else {
    encode_portable(to.encoded, argument);
  }
}

// ---- the callee ----

// Retains what the result refers to, appends its bytes.
void finish_result(Invocation& call, const Encoder& encoded);
// The ref's value, or throws its error.
const ValueView& argument_value(Decoder& in, Invocation& call);

template <class T>
T decode_held(Decoder& in) {
  if constexpr (std::is_same_v<T, std::string_view>)
    return in.text();
  else
    return decode_whole<T>(in);
}

template <class T>
T decode_argument(Decoder& in, Invocation& call) {
  ++call.argument;
  in.set_target(type_name<T>());
  if (!in.take_tag(kRefTag)) return decode_held<T>(in);
  Decoder value(argument_value(in, call).bytes, type_name<T>());
  T held = decode_held<T>(value);
  value.finish();
  return held;
}

template <class... P>
std::tuple<Held<P>...> decode_arguments(Invocation& call, Types<P...>) {
  Decoder in(call.arguments, "the arguments of a call");
  in.array_of(sizeof...(P));
  std::tuple<Held<P>...> held{decode_argument<Held<P>>(in, call)...};  // braces: from left to right
  call.argument = 0;
  in.finish();
  return held;
}

// The same function, but the compiler does not know which: it keeps a frame of its own, and the stack of what
// it throws names it.
template <class F>
F opaque(F function) {
  asm("" : "+m"(function));
  return function;
}

// Runs `code` on the arguments and encodes what it answers.
template <class R, class... P>
void run_entry(Invocation& call, Types<P...> parameters, auto code) {
  std::tuple<Held<P>...> held = decode_arguments(call, parameters);
  Encoder out;
  const auto run = [&code](Held<P>&... arguments) -> R { return code(static_cast<P&&>(arguments)...); };
  call.in_user_code = true;
  if constexpr (std::is_void_v<R>) {
    std::apply(run, held);
    call.in_user_code = false;
    out.null();
    finish_result(call, out);
  } else {
    const auto& result = std::apply(run, held);
    call.in_user_code = false;
    if (call.portable)
      encode_portable<std::remove_cvref_t<R>>(out, result);
    else
      encode<std::remove_cvref_t<R>>(out, result);
    finish_result(call, out);  // while the result, and so the refs inside it, live
  }
}

// ---- the registry ----

struct RegisteredFunction : Function {
  explicit RegisteredFunction(const Function& function) : Function(function) {
    id = hash_name(mangled);
    register_function(*this);
  }
};

// "(long int, double)".
template <class... P>
constexpr const char* spelled_parameters(Types<P...>) {
  return kTypeName<void(P...)>.data() + std::string_view("void").size();
}

// The mangled name of a tag is the identity of what it names, in every process and compiler of one ABI.
template <auto F>
struct TaskTag {};
template <class T, auto M>
struct MethodTag {};
template <class T, class... A>
struct ConstructorTag {};

template <auto F>
struct TaskEntry {
  using Types = typename Signature<decltype(F)>::Parameters;
  using Result = typename Signature<decltype(F)>::Result;

  static void invoke(Invocation& call) { run_entry<Result>(call, Types{}, opaque(F)); }
  static inline RegisteredFunction entry{{.kind = FunctionKind::kTask,
                                          .mangled = typeid(TaskTag<F>).name(),
                                          .name = kValueName<F>.data(),
                                          .parameters = spelled_parameters(Types{}),
                                          .result = kTypeName<Result>.data(),
                                          .parameter_count = Signature<decltype(F)>::kCount,
                                          .invoke = invoke}};
};

template <class T, auto M>
struct MethodEntry {
  using Types = typename Signature<decltype(M)>::Parameters;
  using Result = typename Signature<decltype(M)>::Result;

  static void invoke(Invocation& call) {
    T& self = *static_cast<T*>(call.self);
    run_entry<Result>(call, Types{}, [&self, method = opaque(M)]<class... A>(A&&... arguments) -> Result {
      return (self.*method)(std::forward<A>(arguments)...);
    });
  }
  static inline RegisteredFunction entry{{.kind = FunctionKind::kMethod,
                                          .mangled = typeid(MethodTag<T, M>).name(),
                                          .name = kValueName<M>.data(),
                                          .owner = kTypeName<T>.data(),
                                          .parameters = spelled_parameters(Types{}),
                                          .result = kTypeName<Result>.data(),
                                          .parameter_count = Signature<decltype(M)>::kCount,
                                          .invoke = invoke}};
};

template <class T, class... A>
struct ConstructorEntry {
  static void invoke(Invocation& call) {
    auto held = decode_arguments(call, Types<A...>{});
    call.in_user_code = true;
    call.constructed = std::apply(
        [](A&... arguments) {
          if constexpr (std::is_constructible_v<T, A...>)
            return new T(std::move(arguments)...);
          else
            return new T{std::move(arguments)...};
        },
        held);
    call.in_user_code = false;
  }
  static void destroy(void* self) { delete static_cast<T*>(self); }
  static inline RegisteredFunction entry{{.kind = FunctionKind::kConstructor,
                                          .mangled = typeid(ConstructorTag<T, A...>).name(),
                                          .name = kTypeName<T>.data(),
                                          .parameters = spelled_parameters(Types<A...>{}),
                                          .parameter_count = sizeof...(A),
                                          .invoke = invoke,
                                          .destroy = destroy}};
};

}  // namespace internal
}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
