// Result<T>: a value, or the error in its place, as try_get() answers it.
//
//   rayo::Result<int64_t> result = ref.try_get(std::chrono::seconds(1));
//   if (result) use(*result);
//   else if (result.error().kind == rayo::ErrorKind::kTimeout) later();
//
// A plain value; no thread rules. value() throws the error that it holds; * and -> want a value to be there.
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include <rayo/error.h>

namespace rayo {
inline namespace v0 {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(ErrorRecord error) requires(!std::is_same_v<T, ErrorRecord>)
      : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  const T& value() const& { return check(), *std::get_if<0>(&state_); }
  T&& value() && { return check(), std::move(*std::get_if<0>(&state_)); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&state_); }
  T&& operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
  const T* operator->() const noexcept { return std::get_if<0>(&state_); }
  const ErrorRecord& error() const noexcept { return *std::get_if<1>(&state_); }

 private:
  void check() const {
    if (!has_value()) throw_error(error());
  }
  std::variant<T, ErrorRecord> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(ErrorRecord error) : error_(std::move(error)) {}

  bool has_value() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const {
    if (error_) throw_error(*error_);
  }
  const ErrorRecord& error() const noexcept { return *error_; }

 private:
  std::optional<ErrorRecord> error_;
};

}  // namespace v0
}  // namespace rayo
