#include "runtime/cli/cluster.h"

#include <cstdlib>

#include "runtime/base/address.h"
#include "runtime/base/ids.h"
#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/cli/flags.h"
#include "runtime/cli/token_source.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/join.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;
using base::cat;

// A handshake takes milliseconds; a sleeping link or a slow name server seconds.
constexpr base::Duration kJoinPatience = 5s;
// To see whether anything is there at all.
constexpr base::Duration kProbePatience = 1s;

// The token of a session's file, else as on a strange machine.
TokenSearch token_for(const std::optional<base::Session>& session, const std::string& address, Terminal& terminal) {
  if (session) {
    if (auto text = base::read_file(session->token_file()); text.ok()) return {{}, std::string(base::trim(*text))};
  }
  return find_token({}, cat("Token of the cluster at ", address), terminal);
}

// Where nobody answers, the token is not what is missing.
base::Status anybody_answers(const std::string& address) {
  RAYO_ASSIGN_OR_RETURN(const std::vector<base::HostPort> heads, base::parse_host_ports(address));
  return rpc::dial_any(heads, base::deadline_after(base::system_clock().now(), kProbePatience)).status();
}

}  // namespace

Cluster::Cluster(std::optional<base::Session> session, std::string address)
    : session_(std::move(session)), address_(std::move(address)) {}
Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

base::Status Cluster::join_as_client(Terminal& terminal) {
  if (identity_) return {};
  TokenSearch search = token_for(session_, address_, terminal);
  if (!search.status.ok()) {
    RAYO_RETURN_IF_ERROR(anybody_answers(address_));
    return base::failed(absl::StatusCode::kUnauthenticated, base::message(search.status),
                        base::next_step(search.status));
  }
  RAYO_ASSIGN_OR_RETURN(rpc::Token token, rpc::Token::parse(search.token));
  RAYO_ASSIGN_OR_RETURN(std::vector<base::HostPort> heads, base::parse_host_ports(address_));
  base::Status error;
  for (const base::HostPort& head : heads) {
    rpc::Joiner joiner{rpc::Role::kClient, base::random_id<rpc::MemberId>(), std::string(base::kVersion)};
    auto joined = rpc::join({head.host, head.port}, token, joiner,
                            base::deadline_after(base::system_clock().now(), kJoinPatience));
    if (joined.ok()) {
      identity_ = std::move(joined->identity);
      cluster_ = joined->cluster;
      return {};
    }
    error = joined.status();
  }
  // join() refuses with FailedPrecondition what docs/errors.md counts as refused, too.
  return rpc::join_exit_code(error) == kRefused
             ? base::failed(absl::StatusCode::kUnauthenticated, base::message(error), base::next_step(error))
             : error;
}

base::StatusOr<rpc::Channel*> Cluster::head(Terminal& terminal) {
  if (head_) return head_.get();
  if (session_ && session_->has_head) {
    if (!base::live_pid(session_->head().head_pid())) {
      return base::failed(absl::StatusCode::kUnavailable,
                          cat("the head of '", session_->name, "' does not run: its process has ended"),
                          "rayo logs shows its last words; rayo stop, then rayo start --head");
    }
    head_ = rpc::Channel::local(session_->head().control_socket());
    return head_.get();
  }
  RAYO_RETURN_IF_ERROR(join_as_client(terminal));
  head_ = rpc::Channel::tls(
      {.addresses = base::split(address_, ','), .identity = *identity_, .expect = {rpc::Role::kHead, cluster_, {}}});
  return head_.get();
}

rpc::Channel* Cluster::local_raylet() {
  const base::NodeFiles* node = session_ ? session_->local_raylet() : nullptr;
  if (node && !local_raylet_) local_raylet_ = rpc::Channel::local(node->control_socket());
  return local_raylet_.get();
}

base::StatusOr<std::unique_ptr<rpc::Channel>> Cluster::raylet_at(const std::string& address, Terminal& terminal) {
  RAYO_RETURN_IF_ERROR(join_as_client(terminal));
  return rpc::Channel::tls(
      {.addresses = {address}, .identity = *identity_, .expect = {rpc::Role::kNode, cluster_, {}}});
}

ClusterSearch find_cluster(const std::string& flag, Terminal&) {
  const char* environment = std::getenv("RAYO_ADDRESS");
  std::string address = flag.empty() && environment ? environment : flag;
  auto session = base::find_session(address);
  if (session.ok()) {
    std::string reach = session->reach();
    return {Cluster(std::move(*session), std::move(reach)), {}, kDone};
  }
  bool elsewhere = !address.empty() && session.status().code() == absl::StatusCode::kNotFound;
  if (!elsewhere) return {std::nullopt, session.status(), exit_code_of_search(session.status())};
  return {Cluster(std::nullopt, address), {}, kDone};
}

void add_address_flag(Flags& flags, std::string& address) {
  flags.text("--address", address, "HOST:PORT", "the cluster's head (RAYO_ADDRESS; else the one of this home)");
}

}  // namespace rayo::cli
