// Errors of the world as values: a model file that is not one, a template that refuses its messages.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace serving {

struct Problem {
  std::string what;  // what failed and why, with figures
  std::string next;  // what the reader can do about it; may be empty where the caller knows better
};

// A T, or why there is none.
template <class T>
class Result {
 public:
  Result(T value) : content_(std::move(value)) {}
  Result(Problem problem) : content_(std::move(problem)) {}

  bool ok() const { return content_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() { return std::get<0>(content_); }
  const T& operator*() const { return std::get<0>(content_); }
  T* operator->() { return &std::get<0>(content_); }
  const T* operator->() const { return &std::get<0>(content_); }
  const Problem& problem() const { return std::get<1>(content_); }

 private:
  std::variant<T, Problem> content_;
};

}  // namespace serving
