#include "runtime/base/status.h"

#include <absl/strings/cord.h>
#include <cerrno>
#include <cstring>
#include <sys/resource.h>

#include "runtime/base/text.h"

namespace rayo::base {
namespace {
constexpr char kNextStep[] = "rayo/next_step";
}

Status failed(absl::StatusCode code, std::string_view what, std::string_view next_step) {
  Status status(code, absl::string_view(what.data(), what.size()));
  if (!next_step.empty())
    status.SetPayload(kNextStep, absl::Cord(absl::string_view(next_step.data(), next_step.size())));
  return status;
}

Status failed_errno(int error, std::string_view what, std::string_view next_step) {
  char buffer[128];
  std::string text = cat(what, ": ", std::string_view(strerror_r(error, buffer, sizeof buffer)));
  if (error != EMFILE) return failed(absl::ErrnoToStatusCode(error), text, next_step);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return failed(absl::ErrnoToStatusCode(error), cat(text, " (this process may have ", limit.rlim_cur, ")"),
                "end what is not needed, or raise the limit (`ulimit -n`) before its program or node is started");
}

std::string next_step(const Status& status) {
  auto payload = status.GetPayload(kNextStep);
  return payload ? std::string(*payload) : std::string();
}

std::string_view message(const Status& status) {
  absl::string_view text = status.message();
  return {text.data(), text.size()};
}

Status within(const Status& status, std::string_view what) {
  if (status.ok()) return status;
  return failed(status.code(), cat(what, ": ", message(status)), next_step(status));
}

}  // namespace rayo::base
