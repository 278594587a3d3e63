#include "runtime/rpc/join.h"

#include "runtime/base/text.h"
#include "runtime/proto/join.pb.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/tls_stream.h"

namespace rayo::rpc {
namespace {

constexpr size_t kMaxMessage = 64 << 10;  // a signing request has 400 bytes, an answer 1,500

bool is(const base::Status& status, absl::StatusCode code) { return status.code() == code; }

// What went wrong on the stream before the head has shown that it holds the token.
base::Status not_accepted(const base::Status& status, const std::string& head) {
  if (is(status, absl::StatusCode::kDeadlineExceeded))
    return base::failed(
        absl::StatusCode::kUnavailable,
        base::cat("cannot join at ", head, ": timed out: something accepts connections there, but did not answer"),
        "is that the head's port? `rayo status` on the head's machine shows it");
  if (is(status, absl::StatusCode::kAborted))
    return base::failed(
        absl::StatusCode::kUnauthenticated,
        base::cat("the head at ", head, " closed the connection on our join header: wrong token, or not a Rayo port"),
        kTokenStep);
  if (is(status, absl::StatusCode::kPermissionDenied))
    return base::failed(
        absl::StatusCode::kUnauthenticated,
        base::cat("what answers at ", head, " does not hold this token: wrong token, or not a Rayo port"), kTokenStep);
  return base::within(status, base::cat("cannot join at ", head));
}

base::Status lost(const base::Status& status, const std::string& head) {
  bool late = is(status, absl::StatusCode::kDeadlineExceeded);
  return base::failed(
      absl::StatusCode::kUnavailable,
      base::cat("the head at ", head, late ? " did not answer our join in time" : " went away during our join"),
      "`rayo status` on the head's machine tells whether it runs");
}

base::Status other_version(std::string_view ours, std::string_view theirs, const std::string& head) {
  return base::failed(absl::StatusCode::kFailedPrecondition,
                      base::cat("this machine runs Rayo ", ours, ", the head at ", head, " runs ", theirs),
                      "install the same minor version on both");
}

std::string start_of(const Fingerprint& fingerprint) {
  Token shown{{}, fingerprint};
  return shown.text().substr(65, 16);
}

proto::JoinAsk ask_of(const Joiner& joiner, const SigningRequest& request) {
  proto::JoinAsk ask;
  ask.set_version(joiner.version);
  ask.set_role(joiner.role == Role::kClient ? proto::JOIN_CLIENT : proto::JOIN_NODE);
  ask.mutable_id()->set_high(joiner.id.high);
  ask.mutable_id()->set_low(joiner.id.low);
  ask.set_signing_request(request.request_pem);
  return ask;
}

base::StatusOr<JoinResult> check_answer(const proto::JoinAnswer& answer, const Token& token, const Joiner& joiner,
                                        const std::string& head) {
  if (!same_minor_version(joiner.version, answer.version()))
    return other_version(joiner.version, answer.version(), head);
  if (answer.has_failure())
    return base::failed(absl::StatusCode::kFailedPrecondition,
                        base::cat("the head at ", head, " refused the join: ", answer.failure().text()),
                        answer.failure().next_step());
  auto fingerprint = fingerprint_of(answer.ca());
  if (!fingerprint.ok() || *fingerprint != token.fingerprint)
    return base::failed(absl::StatusCode::kUnauthenticated,
                        base::cat("the head at ", head, " shows another CA (",
                                  fingerprint.ok() ? start_of(*fingerprint) : std::string("none"),
                                  "...) than the token names (", start_of(token.fingerprint), "...)"),
                        kTokenStep);
  JoinResult result;
  result.identity.ca_pem = answer.ca();
  result.identity.certificate_pem = answer.certificate();
  result.cluster = {answer.cluster().high(), answer.cluster().low()};
  result.cluster_name = answer.cluster_name();
  result.version = answer.version();
  RAYO_ASSIGN_OR_RETURN(result.data_secret, secret_from_bytes(answer.data_secret()));
  return result;
}

}  // namespace

base::StatusOr<JoinResult> join(const HostPort& head, const Token& token, const Joiner& joiner,
                                base::TimePoint deadline) {
  const std::string at = head.text();
  RAYO_ASSIGN_OR_RETURN(SigningRequest request, make_signing_request());
  RAYO_ASSIGN_OR_RETURN(base::Fd socket, dial(head, deadline));
  LinkKeys keys = LinkKeys::of_join(token.secret);
  DataHeader header = make_data_header(LinkKind::kJoin, true, {}, keys);
  DataHeaderBytes bytes = encode(header);
  base::Status status = send_all(socket.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, deadline);
  if (!status.ok()) return not_accepted(status, at);
  TlsStream stream(std::move(socket), TlsPump::client(keys.tls_key(header.nonce)), deadline);
  if (status = stream.handshake(); !status.ok()) return not_accepted(status, at);
  if (status = stream.write_message(ask_of(joiner, request).SerializeAsString()); !status.ok()) return lost(status, at);
  auto message = stream.read_message(kMaxMessage);
  if (!message.ok()) return lost(message.status(), at);
  proto::JoinAnswer answer;
  if (!answer.ParseFromString(*message))
    return base::failed(absl::StatusCode::kInternal, base::cat("the head at ", at, " answered our join with nonsense"));
  stream.close();
  RAYO_ASSIGN_OR_RETURN(JoinResult result, check_answer(answer, token, joiner, at));
  result.identity.key_pem = std::move(request.key_pem);
  RAYO_RETURN_IF_ERROR(check_identity(result.identity, base::system_clock().wall()));
  return result;
}

int join_exit_code(const base::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return 3;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
      return 4;
    default:
      return 1;
  }
}

namespace {

// The certificate, or why there is none; only a joiner that holds the token gets here.
proto::JoinAnswer answer_of(const proto::JoinAsk& ask, const RoleName& name, const JoinDesk& desk) {
  proto::JoinAnswer answer;
  answer.set_version(desk.version);
  auto refuse = [&](std::string_view why) {
    answer.mutable_failure()->set_kind(proto::INVALID);
    answer.mutable_failure()->set_text(std::string(why));
    return answer;
  };
  if (!same_minor_version(ask.version(), desk.version))
    return refuse(base::cat("the head runs Rayo ", desk.version, ", you run ", ask.version()));
  if ((ask.role() != proto::JOIN_NODE && ask.role() != proto::JOIN_CLIENT) || !name.id)
    return refuse("neither a node nor a client asks");
  auto certificate = issue(desk.authority, ask.signing_request(), name, base::system_clock().wall());
  if (!certificate.ok()) return refuse(base::message(certificate.status()));
  answer.mutable_cluster()->set_high(desk.cluster.high);
  answer.mutable_cluster()->set_low(desk.cluster.low);
  answer.set_cluster_name(desk.cluster_name);
  answer.set_certificate(*std::move(certificate));
  answer.set_ca(desk.authority.certificate_pem);
  answer.set_data_secret(to_bytes(desk.data_secret));
  return answer;
}

}  // namespace

base::StatusOr<RoleName> serve_join(base::Fd socket, const DataHeader& header, const JoinDesk& desk) {
  LinkKeys keys = LinkKeys::of_join(desk.token_secret);
  if (header.kind != LinkKind::kJoin || !header.tls || !verify(header, keys))
    return base::failed(absl::StatusCode::kPermissionDenied, "a join header without this cluster's token");
  TlsStream stream(std::move(socket), TlsPump::server(keys.tls_key(header.nonce)),
                   base::deadline_after(base::system_clock().now(), kHandshakeLimit));
  RAYO_RETURN_IF_ERROR(stream.handshake());
  RAYO_ASSIGN_OR_RETURN(std::string message, stream.read_message(kMaxMessage));
  proto::JoinAsk ask;
  if (!ask.ParseFromString(message))
    return base::failed(absl::StatusCode::kInvalidArgument, "a joiner with the token sent nonsense");
  RoleName name{
      ask.role() == proto::JOIN_CLIENT ? Role::kClient : Role::kNode, desk.cluster, {ask.id().high(), ask.id().low()}};
  proto::JoinAnswer answer = answer_of(ask, name, desk);
  RAYO_RETURN_IF_ERROR(stream.write_message(answer.SerializeAsString()));
  stream.close();
  if (answer.has_failure()) return base::failed(absl::StatusCode::kFailedPrecondition, answer.failure().text());
  return name;
}

bool same_minor_version(std::string_view left, std::string_view right) {
  auto minor = [](std::string_view version) {
    size_t first = version.find('.');
    size_t second = first == std::string_view::npos ? first : version.find('.', first + 1);
    return version.substr(0, second);
  };
  return !left.empty() && minor(left) == minor(right);
}

}  // namespace rayo::rpc
