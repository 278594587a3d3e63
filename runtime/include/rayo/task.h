// Tasks: a function that runs once somewhere in the cluster.
//
//   double half(double x) { return x / 2; }
//
//   rayo::ObjectRef<double> a = rayo::remote<half>(3.0);
//   rayo::ObjectRef<double> b = rayo::remote<half>(a);   // the task waits for a, moves its value, opens it
//   auto c = rayo::remote<train>({.resources = {.gpus = 1}}, model);
//
// rayo::remote does not wait, but where an argument holds the handle of an actor that the cluster does not know yet (30 s
// at most).
//
// Any thread. Parameters are copies, as with actors. Errors arrive at get(): TaskError with what the function
// threw, and Unschedulable, ObjectLost and their like. A task holds 1 CPU while it runs; one that waits in
// get() lends it.
#pragma once

#include <concepts>
#include <type_traits>

#include <rayo/internal/entry.h>
#include <rayo/object.h>
#include <rayo/options.h>

namespace rayo {
inline namespace v0 {

template <auto F, class... A>
auto remote(const TaskOptions& options, const A&... arguments) {
  static_assert(internal::is_function<F>, "rayo: remote<function> names a function");
  if constexpr (internal::is_function<F>) {
    using Signature = internal::Signature<decltype(F)>;
    internal::check_signature<typename Signature::Result>(typename Signature::Parameters{});
    internal::Backend& backend = internal::backend();
    internal::Arguments<internal::kRefCount<A...>> encoded(backend);
    internal::encode_arguments(encoded, typename Signature::Parameters{}, arguments...);
    const auto object = backend.submit(options, encoded.request(internal::TaskEntry<F>::entry.id));
    return ObjectRef<std::remove_cvref_t<typename Signature::Result>>(internal::CountedRef(backend, object));
  }
}

template <auto F, class... A>
requires(!std::same_as<TaskOptions, A> && ...) auto remote(const A&... arguments) {
  return remote<F>(TaskOptions{}, arguments...);
}

// Registers functions that only Python, or another program, calls: name them once, anywhere at namespace scope.
//
//   const auto exposed = rayo::expose_functions<half, train>;
template <auto... F>
inline const size_t expose_functions = [] {
  static_assert((internal::is_function<F> && ...), "rayo: expose_functions<function...> names functions");
  return (size_t{0} + ... + size_t{internal::TaskEntry<F>::entry.id != 0});
}();

}  // namespace v0
}  // namespace rayo
