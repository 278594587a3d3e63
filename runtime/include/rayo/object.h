// ObjectRef<T>: a counted reference to an immutable value of the cluster, which is there already or will
// come.
//
//   rayo::ObjectRef<int64_t> hits = counter.call<&Counter::add>(3);
//   int64_t n = hits.get();                                  // waits; throws a subclass of rayo::Error
//   auto soon = hits.try_get(std::chrono::milliseconds(10)); // rayo::Result<int64_t>
//   rayo::ObjectRef<Model> model = rayo::put(load());        // once, for many calls
//   auto [ready, pending] = rayo::wait(refs, 1);
//
// Copies and moves are counted; the value lives while a reference to it does, in any process. A ref is an
// argument wherever its value would be, and may stand inside a value. Any thread; one ref object is not to be
// changed by two threads at once. get() and wait() in an actor's method hold up the calls behind it. After
// shutdown() refs may be copied and dropped, and get() throws Unavailable.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <rayo/codec.h>
#include <rayo/internal/backend.h>
#include <rayo/result.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {

inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

namespace internal {

// One count of an object, and the backend that keeps it.
class CountedRef {
 public:
  CountedRef() = default;
  // Takes over one count.
  CountedRef(Backend& backend, const ObjectHandle& handle) : handle_(handle), backend_(&backend) {}
  CountedRef(const CountedRef& other) : handle_(other.handle_), backend_(other.backend_) {
    if (backend_ != nullptr) retain();
  }
  CountedRef(CountedRef&& other) noexcept : handle_(other.handle_), backend_(std::exchange(other.backend_, nullptr)) {}
  CountedRef& operator=(CountedRef other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(backend_, other.backend_);
    return *this;
  }
  ~CountedRef() {
    if (backend_ != nullptr) release();
  }

  explicit operator bool() const { return backend_ != nullptr; }
  const ObjectId& id() const { return handle_.id; }
  // For use with `backend`; Invalid for an empty ref, Unavailable for one of a session that has ended.
  const ObjectHandle& handle(Backend& backend) const {
    if (backend_ != &backend) [[unlikely]]
      refuse();
    return handle_;
  }

 private:
  void retain() const;
  void release() const;
  [[noreturn]] void refuse() const;

  ObjectHandle handle_;
  Backend* backend_ = nullptr;
};

// Waits, reads; false where the time is over.
bool get_object(const CountedRef& ref, std::chrono::nanoseconds timeout, ValueReader read, void* context);
bool is_ready(const CountedRef& ref);
[[noreturn]] void throw_timeout(const ObjectId& object, std::chrono::nanoseconds timeout);
// Which of `objects` are ready once `count` are or the time is over.
std::vector<bool> wait_objects(const std::vector<CountedRef>& objects, size_t count, std::chrono::nanoseconds timeout);
CountedRef put_object(const Encoder& encoded);
void cancel_object(const CountedRef& ref);

void encode_ref(Encoder& out, const CountedRef& ref);
CountedRef decode_ref(Decoder& in);

template <class T>
void read_into(void* context, const ValueView& view) {
  if (view.error != nullptr) throw_error(*view.error);
  Decoder in(view.bytes, type_name<T>());
  if constexpr (!std::is_void_v<T>)
    static_cast<std::optional<T>*>(context)->emplace(decode_whole<T>(in));
  else
    in.null();
  in.finish();
}

}  // namespace internal

template <class T>
class ObjectRef {
  static_assert(std::is_same_v<T, std::remove_cvref_t<T>>,
                "rayo: ObjectRef<T> wants a plain type: no reference, no const");

 public:
  using value_type = T;

  ObjectRef() = default;  // refers to nothing
  explicit ObjectRef(internal::CountedRef ref) : ref_(std::move(ref)) {}

  // Waits until the value is there and answers a copy of it. Throws the error that stands in its place,
  // Timeout when the time is over, TypeMismatch where the value is no T.
  T get(std::chrono::nanoseconds timeout = kForever) const {
    if constexpr (std::is_void_v<T>) {
      if (!internal::get_object(ref_, timeout, internal::read_into<void>, nullptr))
        internal::throw_timeout(id(), timeout);
    } else {
      std::optional<T> value;
      if (!internal::get_object(ref_, timeout, internal::read_into<T>, &value)) internal::throw_timeout(id(), timeout);
      return *std::move(value);
    }
  }

  // The same without throwing a rayo::Error.
  Result<T> try_get(std::chrono::nanoseconds timeout = kForever) const {
    try {
      if constexpr (std::is_void_v<T>) {
        get(timeout);
        return {};
      } else {
        return get(timeout);
      }
    } catch (const Error& error) {
      return error.record();
    }
  }

  // The value, or an error in its place, is there: get() would not wait.
  bool ready() const { return internal::is_ready(ref_); }

  const ObjectId& id() const { return ref_.id(); }
  explicit operator bool() const { return static_cast<bool>(ref_); }
  friend bool operator==(const ObjectRef& a, const ObjectRef& b) { return a.id() == b.id(); }

  const internal::CountedRef& counted() const { return ref_; }

 private:
  internal::CountedRef ref_;
};

// Stores a value in the cluster. For what several calls use: it is encoded and moved once.
template <class T>
ObjectRef<std::remove_cvref_t<T>> put(const T& value) {
  static_assert(!std::is_array_v<T> && !std::is_pointer_v<T>,
                "rayo: put takes a value: std::string(\"...\"), not a pointer or array");
  Encoder out;
  encode<std::remove_cvref_t<T>>(out, value);
  return ObjectRef<std::remove_cvref_t<T>>(internal::put_object(out));
}

template <class T>
struct Waited {
  std::vector<ObjectRef<T>> ready;  // in the order of the call
  std::vector<ObjectRef<T>> pending;
};

// Waits until `count` of the refs (all, where there are fewer) are ready or the time is over. An error counts
// as ready.
template <class T>
Waited<T> wait(std::vector<ObjectRef<T>> refs, size_t count = 1, std::chrono::nanoseconds timeout = kForever) {
  std::vector<internal::CountedRef> counted;
  counted.reserve(refs.size());
  for (const ObjectRef<T>& ref : refs) counted.push_back(ref.counted());
  const std::vector<bool> ready = internal::wait_objects(counted, count, timeout);
  Waited<T> waited;
  for (size_t i = 0; i < refs.size(); ++i) (ready[i] ? waited.ready : waited.pending).push_back(std::move(refs[i]));
  return waited;
}

// All values, in order; throws the first error.
template <class T>
std::vector<T> get(const std::vector<ObjectRef<T>>& refs, std::chrono::nanoseconds timeout = kForever) {
  const auto start = internal::Clock::now();
  std::vector<T> values;
  values.reserve(refs.size());
  for (const ObjectRef<T>& ref : refs) {
    const auto spent = internal::Clock::now() - start;
    values.push_back(ref.get(timeout == kForever ? kForever : std::max(timeout - spent, std::chrono::nanoseconds(0))));
  }
  return values;
}

// Gives up the call or task that makes the value: get() throws Cancelled at once. One that has not started never
// will; one that runs sees rayo::is_cancelled() and may end early. Nothing happens where the value is there
// already. Only the program (or actor) that made the call can cancel it: Invalid elsewhere.
template <class T>
void cancel(const ObjectRef<T>& ref) {
  internal::cancel_object(ref.counted());
}

template <class T>
struct Codec<ObjectRef<T>> {
  static void encode(Encoder& out, const ObjectRef<T>& ref) { internal::encode_ref(out, ref.counted()); }
  static ObjectRef<T> decode(Decoder& in) { return ObjectRef<T>(internal::decode_ref(in)); }
};

}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop

template <class T>
struct std::hash<rayo::ObjectRef<T>> {
  size_t operator()(const rayo::ObjectRef<T>& ref) const noexcept { return std::hash<rayo::ObjectId>()(ref.id()); }
};
