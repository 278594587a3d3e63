// What a command's exit code says (docs/errors.md): the same for every command.
#pragma once

#include "runtime/base/status.h"

namespace rayo::cli {

enum ExitCode {
  kDone = 0,
  kFailed = 1,
  kWrongUse = 2,
  kNoCluster = 3,  // or not reachable
  kRefused = 4,    // the token
  kTimedOut = 5,
};

// For an error that came from a head, a raylet or the way to them.
inline ExitCode exit_code_of_call(const base::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kDone;
    case absl::StatusCode::kInvalidArgument:
      return kWrongUse;
    case absl::StatusCode::kUnavailable:
      return kNoCluster;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kRefused;
    case absl::StatusCode::kDeadlineExceeded:
      return kTimedOut;
    default:
      return kFailed;
  }
}

// For an error of base::find_session.
inline ExitCode exit_code_of_search(const base::Status& status) {
  return status.code() == absl::StatusCode::kNotFound ? kNoCluster : kWrongUse;
}

}  // namespace rayo::cli
