#include "runtime/rpc/grpc/wire.h"

#include <absl/synchronization/mutex.h>
#include <array>
#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>
#include <mutex>

#include "runtime/base/log.h"
#include "runtime/base/text.h"

namespace rayo::rpc {
namespace {

using absl::StatusCode;
using base::cat;
using base::failed;

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// gRPC's texts (1.51) of what went wrong on the way, the surest sign first.
struct Sign {
  std::string_view part;
  StatusCode code;
  std::string_view cause;
  std::string_view next_step;
};
constexpr char kInsecure[] = "insecure";  // gRPC's name of a connection without TLS
constexpr std::string_view kNoAnswer = "no answer in time";
constexpr std::string_view kFirewalls = "check the address, the network and firewalls";
constexpr std::string_view kStopped =
    "its process lives and does nothing: `rayo logs` shows its last words, `rayo stop` ends it";
constexpr std::string_view kSameCluster = "is it the same cluster? `rayo status` there tells; a new token joins again";
constexpr std::array kSigns = {
    Sign{"Connection refused", StatusCode::kUnavailable, "connection refused",
         "is Rayo running there? `rayo status` on that machine tells"},
    Sign{"DNS resolution failed", StatusCode::kUnavailable, "the name does not resolve", "check the host name"},
    Sign{"Domain name not found", StatusCode::kUnavailable, "the name does not resolve", "check the host name"},
    Sign{"CERTIFICATE_VERIFY_FAILED", StatusCode::kUnauthenticated, "its certificate is of another cluster, or expired",
         kSameCluster},
    Sign{"certificate verify failed", StatusCode::kUnauthenticated, "its certificate is of another cluster, or expired",
         kSameCluster},
    Sign{"WRONG_VERSION_NUMBER", StatusCode::kUnavailable, "it does not speak TLS: not a Rayo port", "check the port"},
    Sign{"wrong version number", StatusCode::kUnavailable, "it does not speak TLS: not a Rayo port", "check the port"},
    Sign{"Network is unreachable", StatusCode::kUnavailable, "no route to it", "check the address and the network"},
    Sign{"No route to host", StatusCode::kUnavailable, "no route to it",
         "check the address, the network and firewalls"},
    Sign{"No such file or directory", StatusCode::kUnavailable, "nothing listens there",
         "is Rayo running? `rayo status` tells"},
    Sign{"keepalive watchdog timeout", StatusCode::kUnavailable, "it stopped answering", ""},
    Sign{"Ping timeout", StatusCode::kUnavailable, "it stopped answering", ""},
    Sign{"Timeout occurred", StatusCode::kUnavailable, kNoAnswer, kFirewalls},
    Sign{"timed out", StatusCode::kUnavailable, kNoAnswer, kFirewalls},
};

// Between these words our own verifier's sentence stands inside of gRPC's.
constexpr std::string_view kVerifierMark = "rayo-verifier:";

std::optional<base::Status> verifier_error(const std::string& text, const CallTexts& texts) {
  auto begin = text.find(kVerifierMark);
  if (begin == std::string::npos) return std::nullopt;
  begin += kVerifierMark.size();
  auto end = text.find(';', begin);
  return failed(StatusCode::kUnauthenticated,
                cat("cannot talk to ", texts.place, ": ", text.substr(begin, end - begin)), kSameCluster);
}

base::Status unavailable(const std::string& text, const CallTexts& texts) {
  if (auto error = verifier_error(text, texts)) return *error;
  for (const Sign& sign : kSigns) {
    if (!holds(text, sign.part)) continue;
    const bool silent = texts.local && sign.cause == kNoAnswer;
    return failed(sign.code, cat("cannot reach ", texts.place, ": ", sign.cause), silent ? kStopped : sign.next_step);
  }
  if (texts.reached)
    return failed(StatusCode::kUnavailable, cat("the connection to ", texts.place, " broke during ", texts.method));
  return failed(StatusCode::kUnavailable,
                cat("cannot talk to ", texts.place, ": the connection ended before it had said anything"),
                "it may hang, be shutting down, or not know this machine's certificate; its log tells");
}

std::string_view method_name(const std::string& path) {
  std::string_view text = path;
  return text.substr(text.rfind('/') + 1);
}

}  // namespace

std::string Peer::text() const {
  if (local) return "this machine";
  if (name.role == Role::kHead) return "the head";
  return cat(name.role == Role::kNode ? "node " : "client ", name.id.hex());
}

grpc::ByteBuffer to_buffer(std::string message) {
  auto* owned = new std::string(std::move(message));
  grpc::Slice slice(
      owned->data(), owned->size(), [](void* text) { delete static_cast<std::string*>(text); }, owned);
  return grpc::ByteBuffer(&slice, 1);
}

std::string to_string(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string out;
  if (!buffer.Dump(&slices).ok()) return out;
  out.reserve(buffer.Length());
  for (const auto& slice : slices) out.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return out;
}

grpc::Status to_grpc(const base::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(base::message(status))};
}

base::Status from_grpc(const grpc::Status& status, const std::optional<std::string>& next_step,
                       const CallTexts& texts) {
  if (status.ok()) return absl::OkStatus();
  auto code = static_cast<StatusCode>(status.error_code());
  if (next_step) return failed(code, status.error_message(), *next_step);
  std::string method(method_name(texts.method));
  CallTexts named = texts;
  named.method = method;
  switch (code) {
    case StatusCode::kUnavailable:
      return unavailable(status.error_message(), named);
    case StatusCode::kUnimplemented:
      return failed(code, cat(texts.place, " does not know ", method), "it may run another version of Rayo");
    case StatusCode::kDeadlineExceeded:
      if (!texts.reached)
        return failed(StatusCode::kUnavailable, cat("cannot reach ", texts.place, ": ", kNoAnswer),
                      texts.local ? kStopped : kFirewalls);
      return failed(code, cat(texts.place, " did not answer ", method, " in time"));
    case StatusCode::kCancelled:
      return failed(code, cat(method, " at ", texts.place, " was cancelled"));
    default:
      return failed(code, cat(method, " at ", texts.place, ": ", status.error_message()));
  }
}

std::chrono::system_clock::time_point to_wall(base::TimePoint deadline) {
  if (deadline == base::kForever) return std::chrono::system_clock::time_point::max();
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(deadline - base::system_clock().now());
}

base::TimePoint from_wall(std::chrono::system_clock::time_point deadline) {
  auto left = deadline - std::chrono::system_clock::now();
  if (left > std::chrono::hours(24 * 365)) return base::kForever;
  return base::system_clock().now() + left;
}

std::optional<Peer> peer_of(const grpc::AuthContext& context) {
  auto type = context.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  // Without TLS: only rpc::LocalPort hands out such connections, and it has checked the uid.
  if (type.empty() || type[0] == kInsecure) return Peer{true, {}};
  for (const auto& property : {GRPC_PEER_URI_PROPERTY_NAME, GRPC_X509_SAN_PROPERTY_NAME})
    for (const auto& uri : context.FindPropertyValues(property))
      if (auto name = RoleName::parse({uri.data(), uri.size()})) return Peer{false, *name};
  return std::nullopt;
}

bool may_call(const Peer& peer, Access access) {
  if (peer.local || peer.is_head()) return true;
  if (peer.is_node()) return access != Access::kClients;
  return access != Access::kNodes;
}

void prepare_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    gpr_set_log_function([](gpr_log_func_args* line) {
      // Each bad handshake is an error to gRPC; but before it aborts it says only this.
      bool aborts = std::string_view(line->message).starts_with("assertion failed");
      base::log().at(aborts ? base::LogLevel::kCritical : base::LogLevel::kDebug, "grpc {}:{}: {}", line->file,
                     line->line, line->message);
    });
  });
}

}  // namespace rayo::rpc
