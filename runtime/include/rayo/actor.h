// Actors: an object of a plain class that lives in a process of the cluster and runs its methods one at a
// time.
//
//   struct Counter {
//     int64_t value = 0;
//     int64_t add(int64_t n) { return value += n; }
//   };
//
//   auto counter = rayo::spawn<Counter>({.name = "hits", .resources = {.cpus = 0.5}});
//   rayo::ObjectRef<int64_t> hits = counter.call<&Counter::add>(3);   // answers at once
//   auto same = rayo::actor<Counter>("hits");                         // from any program of the namespace
//
// Calls from one process to one actor start in the order they were made. Parameters are copies: values, const
// references, or string_views into the message; an ObjectRef may stand for any argument (the actor gets its
// value). A handle is counted like an ObjectRef and may travel: the actor ends after its last handle is gone
// and its calls are done, at rayo::kill, or with the program that spawned it; a detached one (options.h) at
// rayo::kill alone. Handles are used from any thread.
//
// Nothing here waits for the actor to come up or to answer: errors (ActorDied, TaskError, Unschedulable ...) arrive at
// get(). What may wait for the cluster: a call while 1024 of this process to that actor are under way (60 s, then
// Backpressure); whatever passes on a handle before its actor is known everywhere, a spawn with a name, and rayo::actor
// (30 s at most); rayo::kill, for the end (32 s at most).
//
// An actor whose class this program does not have (written in Python, or by another program) is called by the names of
// its methods, with portable values: numbers, bool, text, bytes, and containers and aggregates of them, which are lists
// and maps elsewhere.
//
//   rayo::ActorHandle<void> greeter = rayo::actor("greeter");
//   rayo::ObjectRef<std::string> hello = greeter.call<std::string>("greet", "Ada", 3);
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <rayo/internal/by_name.h>
#include <rayo/internal/entry.h>
#include <rayo/object.h>
#include <rayo/options.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {

namespace internal {

// One count of an actor, and the backend that keeps it.
class CountedActor {
 public:
  CountedActor() = default;
  // Takes over one count.
  CountedActor(Backend& backend, const ActorId& id) : id_(id), backend_(&backend) {}
  CountedActor(const CountedActor& other) : id_(other.id_), backend_(other.backend_) {
    if (backend_ != nullptr) retain();
  }
  CountedActor(CountedActor&& other) noexcept : id_(other.id_), backend_(std::exchange(other.backend_, nullptr)) {}
  CountedActor& operator=(CountedActor other) noexcept {
    std::swap(id_, other.id_);
    std::swap(backend_, other.backend_);
    return *this;
  }
  ~CountedActor() {
    if (backend_ != nullptr) release();
  }

  explicit operator bool() const { return backend_ != nullptr; }
  const ActorId& any_id() const { return id_; }
  // For use with `backend`; Invalid for an empty handle, Unavailable for one of a session that has ended.
  const ActorId& id(Backend& backend) const {
    if (backend_ != &backend) [[unlikely]]
      refuse();
    return id_;
  }

 private:
  void retain() const;
  void release() const;
  [[noreturn]] void refuse() const;

  ActorId id_;
  Backend* backend_ = nullptr;
};

void encode_actor(Encoder& out, const CountedActor& actor);
CountedActor decode_actor(Decoder& in);
// The living actor of that name; TypeMismatch where it is of another class (empty: any will do).
CountedActor find_named_actor(std::string_view name, std::string_view name_space, std::string_view class_name);

// What a constructor argument becomes on its way: texts are copied, arrays decay.
template <class A>
using SentArgument = std::conditional_t<std::is_convertible_v<A, std::string_view> &&
                                            !std::is_same_v<std::remove_cvref_t<A>, std::string>,
                                        std::string, std::decay_t<A>>;

template <class T, class... A>
inline constexpr bool is_makeable = std::is_constructible_v<T, A...> || requires {
  T{std::declval<A>()...};
};

}  // namespace internal

template <class T>
class ActorHandle {
 public:
  ActorHandle() = default;  // names no actor
  explicit ActorHandle(internal::CountedActor actor) : actor_(std::move(actor)) {}

  // Calls a method: handle.call<&Counter::add>(3). Throws Backpressure or Unavailable where the call cannot
  // even be taken.
  template <auto Method, class... A>
  auto call(const A&... arguments) const {
    static_assert(internal::is_method<Method>, "rayo: call<&Class::method> names a method of the actor's class");
    if constexpr (internal::is_method<Method>) {
      using Signature = internal::Signature<decltype(Method)>;
      static_assert(std::is_base_of_v<typename Signature::Class, T>,
                    "rayo: the method belongs to another class than the actor");
      internal::check_signature<typename Signature::Result>(typename Signature::Parameters{});
      internal::Backend& backend = internal::backend();
      internal::Arguments<internal::kRefCount<A...>> encoded(backend);
      internal::encode_arguments(encoded, typename Signature::Parameters{}, arguments...);
      const auto request = encoded.request(internal::MethodEntry<T, Method>::entry.id);
      const internal::ObjectHandle object = backend.call(actor_.id(backend), request);
      return ObjectRef<std::remove_cvref_t<typename Signature::Result>>(internal::CountedRef(backend, object));
    }
  }

  const ActorId& id() const { return actor_.any_id(); }
  explicit operator bool() const { return static_cast<bool>(actor_); }
  friend bool operator==(const ActorHandle& a, const ActorHandle& b) { return a.id() == b.id(); }

  const internal::CountedActor& counted() const { return actor_; }

 private:
  internal::CountedActor actor_;
};

// An actor of a class that is not known here. What it answers is decoded as the R that is asked for (TypeMismatch at
// get() where it is none); that there is no such method, or that it takes other arguments, is an error at get() too. What
// a Python method raises is a TaskError with its type and traceback.
template <>
class ActorHandle<void> {
 public:
  ActorHandle() = default;  // names no actor
  explicit ActorHandle(internal::CountedActor actor) : actor_(std::move(actor)) {}
  template <class T>
  ActorHandle(const ActorHandle<T>& typed) : actor_(typed.counted()) {}

  // A ref among the arguments stands for its value.
  template <class R, class... A>
  ObjectRef<R> call(std::string_view method, const A&... arguments) const {
    (internal::check_parameter<internal::SentArgument<A>>(), ...);
    internal::Backend& backend = internal::backend();
    internal::Arguments<internal::kRefCount<A...>> encoded(backend);
    encoded.encoded.array(2);
    encoded.encoded.text(method);
    encoded.encoded.array(sizeof...(A));
    (internal::encode_portable_argument(encoded, arguments), ...);
    internal::CallRequest request = encoded.request(internal::kNamedMethod);
    return ObjectRef<R>(internal::CountedRef(backend, backend.call(actor_.id(backend), request)));
  }

  const ActorId& id() const { return actor_.any_id(); }
  explicit operator bool() const { return static_cast<bool>(actor_); }
  friend bool operator==(const ActorHandle& a, const ActorHandle& b) { return a.id() == b.id(); }

  const internal::CountedActor& counted() const { return actor_; }

 private:
  internal::CountedActor actor_;
};

// Makes a T somewhere in the cluster from `arguments` (of its constructor, or of its members where it is an
// aggregate). Throws Invalid for a name that is taken or options out of range.
template <class T, class... A>
ActorHandle<T> spawn(const ActorOptions& options, const A&... arguments) {
  static_assert(std::is_class_v<T> && std::is_same_v<T, std::remove_cvref_t<T>>,
                "rayo: an actor is an object of a class");
  internal::Backend& backend = internal::backend();
  const auto start = [&]<class... S>(internal::Types<S...> types) {
    (internal::check_parameter<S>(), ...);
    internal::Arguments<internal::kRefCount<A...>> encoded(backend);
    internal::encode_arguments(encoded, types, arguments...);
    const uint64_t constructor = internal::ConstructorEntry<T, S...>::entry.id;
    const ActorId id = backend.spawn(options, internal::type_name<T>(), encoded.request(constructor));
    return ActorHandle<T>(internal::CountedActor(backend, id));
  };
  if constexpr (internal::is_makeable<T, internal::SentArgument<A>...>) {
    return start(internal::Types<internal::SentArgument<A>...>{});
  } else {
    // A ref stands for its value.
    static_assert(internal::is_makeable<T, typename internal::ValueOf<internal::SentArgument<A>>::type...>,
                  "rayo: no constructor of the actor's class takes these arguments");
    return start(internal::Types<typename internal::ValueOf<internal::SentArgument<A>>::type...>{});
  }
}

template <class T, class... A>
requires(!std::same_as<ActorOptions, A> && ...) ActorHandle<T> spawn(const A&... arguments) {
  return spawn<T>(ActorOptions{}, arguments...);
}

// The living actor of that name in a namespace (empty: this program's). Invalid where there is none,
// TypeMismatch where its class is another.
template <class T>
ActorHandle<T> actor(std::string_view name, std::string_view name_space = {}) {
  return ActorHandle<T>(internal::find_named_actor(name, name_space, internal::type_name<T>()));
}

// The same whatever its class, to call it by names.
inline ActorHandle<void> actor(std::string_view name, std::string_view name_space = {}) {
  return ActorHandle<void>(internal::find_named_actor(name, name_space, {}));
}

// Ends an actor now: running and waiting calls fail with ActorDied. With `.no_restart = false` it comes back as after any
// death, as often as its max_restarts allows: calls that have not begun wait for its next life.
template <class T>
void kill(const ActorHandle<T>& handle, KillOptions options = {}) {
  internal::Backend& backend = internal::backend();
  backend.kill_actor(handle.counted().id(backend), options);
}

// How an actor is made, for expose: of a constructor with these parameters, or an aggregate's first members.
template <class... A>
struct Constructor {};
template <class... A>
inline constexpr Constructor<A...> constructor{};

namespace internal {
template <class T, auto Method>
struct ExposedEntry {
  static_assert(is_method<Method>, "rayo: expose<Class, &Class::method...> names methods and rayo::constructor<...>");
  static size_t use() { return MethodEntry<T, Method>::entry.id != 0; }
};
template <class T, class... A, Constructor<A...> C>
struct ExposedEntry<T, C> {
  static size_t use() {
    (check_parameter<A>(), ...);
    return ConstructorEntry<T, A...>::entry.id != 0;
  }
};
}  // namespace internal

// Registers what only other programs, or Python, call: name it once, anywhere at namespace scope.
//
//   const auto exposed = rayo::expose<Counter, &Counter::add, &Counter::reset, rayo::constructor<int64_t>>;
//
// A constructor without parameters is among it by itself.
template <class T, auto... Members>
inline const size_t expose = [] {
  size_t count = (size_t{0} + ... + internal::ExposedEntry<T, Members>::use());
  if constexpr (std::is_default_constructible_v<T>) count += internal::ConstructorEntry<T>::entry.id != 0;
  return count;
}();

template <class T>
struct Codec<ActorHandle<T>> {
  static void encode(Encoder& out, const ActorHandle<T>& handle) { internal::encode_actor(out, handle.counted()); }
  static ActorHandle<T> decode(Decoder& in) { return ActorHandle<T>(internal::decode_actor(in)); }
};

}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop

template <class T>
struct std::hash<rayo::ActorHandle<T>> {
  size_t operator()(const rayo::ActorHandle<T>& handle) const noexcept {
    return std::hash<rayo::ActorId>()(handle.id());
  }
};
