// Errors of the world are values: an absl::Status that says what failed and where, and carries what to do next.
//
//   return failed(absl::StatusCode::kUnavailable, "cannot reach the head at 10.0.0.5:6379: connection refused",
//                 "is it running there? `rayo status` on that machine tells");
//
// The CLI prints it as two lines, "rayo: WHAT: CAUSE" and "try: ...".
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <string>
#include <string_view>

namespace rayo::base {

using absl::Status;
using absl::StatusOr;

// An error with the next step; `next_step` may be empty where nobody can do anything.
Status failed(absl::StatusCode code, std::string_view what, std::string_view next_step = {});

// The same from errno: "WHAT: No space left on device", with the code that fits the errno.
Status failed_errno(int error, std::string_view what, std::string_view next_step = {});

// The text, as the standard's string_view; valid as long as `status`.
std::string_view message(const Status& status);

// What to do next; empty where the error carries nothing.
std::string next_step(const Status& status);

// The same error with "WHAT: " before its text; code and next step are kept.
Status within(const Status& status, std::string_view what);

}  // namespace rayo::base

// Returns the error out of the current function: RAYO_RETURN_IF_ERROR(store.apply(batch));
#define RAYO_RETURN_IF_ERROR(expression)                                        \
  do {                                                                          \
    if (auto rayo_status = (expression); !rayo_status.ok()) return rayo_status; \
  } while (false)

#define RAYO_CONCAT_INNER(a, b) a##b
#define RAYO_CONCAT(a, b) RAYO_CONCAT_INNER(a, b)
// RAYO_ASSIGN_OR_RETURN(auto fd, open_socket(path));
#define RAYO_ASSIGN_OR_RETURN(target, expression) \
  RAYO_ASSIGN_OR_RETURN_INNER(RAYO_CONCAT(rayo_result_, __LINE__), target, expression)
#define RAYO_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                   \
  if (!result.ok()) return result.status();                     \
  target = std::move(*result)
