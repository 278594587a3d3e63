#include "runtime/head/driver_desk.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/rpc/frame.h"
#include "runtime/rpc/join.h"
#include "runtime/rpc/tls_stream.h"

namespace rayo::head {
namespace {

using base::cat;

// Named to one driver: it tries one after the other.
constexpr size_t kMostNodes = 16;

base::StatusOr<proto::Hello> read_hello(rpc::TlsStream& stream, rpc::FrameHeader& header) {
  RAYO_ASSIGN_OR_RETURN(const std::string first, stream.read(sizeof header));
  std::memcpy(&header, first.data(), sizeof header);
  if (!rpc::check_header(header))
    return base::failed(absl::StatusCode::kInvalidArgument, "a driver with the token sent nonsense");
  RAYO_ASSIGN_OR_RETURN(const std::string body, stream.read(header.length));
  proto::ToRaylet message;
  if (!message.ParseFromString(body) || !message.has_hello())
    return base::failed(absl::StatusCode::kInvalidArgument, "the first message of a driver is no hello");
  return std::move(*message.mutable_hello());
}

std::string frame_of(uint64_t call_id, proto::HelloReply answer) {
  proto::ToWorker message;
  *message.mutable_hello_reply() = std::move(answer);
  rpc::FrameHeader header;
  header.call_id = call_id;
  header.length = static_cast<uint32_t>(message.ByteSizeLong());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  message.AppendToString(&bytes);
  return bytes;
}

}  // namespace

proto::HelloReply driver_answer(const ClusterState& state) {
  std::vector<proto::NodeInfo> nodes;
  for (const auto& [id, node] : state.nodes.all()) nodes.push_back(state.nodes.describe(node, state.now()));
  std::ranges::sort(nodes, {}, [](const proto::NodeInfo& node) {
    return std::tuple(node.state() != "alive", !node.head(), node.started_at_unix_us());
  });
  nodes.resize(std::min(nodes.size(), kMostNodes));
  proto::HelloReply answer;
  std::vector<std::string> addresses;
  for (const auto& node : nodes) addresses.push_back(node.address());
  answer.set_address(base::join(addresses, ","));
  if (nodes.empty())
    *answer.mutable_failure() = failure(proto::UNAVAILABLE, "the cluster has no node that a program could run on",
                                        "rayo start --address HOST:PORT on one of its machines");
  return answer;
}

base::Status serve_driver(base::Fd socket, const rpc::DataHeader& header, const rpc::Secret& data_secret,
                          proto::HelloReply answer) {
  const rpc::LinkKeys keys = rpc::LinkKeys::of_data(data_secret);
  if (header.kind != rpc::LinkKind::kDriver || !header.tls || !rpc::verify(header, keys))
    return base::failed(absl::StatusCode::kPermissionDenied, "a driver without this cluster's token was cut");
  rpc::TlsStream stream(std::move(socket), rpc::TlsPump::server(keys.tls_key(header.nonce)),
                        base::deadline_after(base::system_clock().now(), rpc::kHandshakeLimit));
  rpc::FrameHeader frame;
  RAYO_RETURN_IF_ERROR(stream.handshake());
  RAYO_ASSIGN_OR_RETURN(const proto::Hello hello, read_hello(stream, frame));
  if (!rpc::same_minor_version(hello.version(), base::kVersion)) {
    answer.Clear();
    *answer.mutable_failure() =
        failure(proto::INVALID,
                cat("this program was built with rayo ", hello.version(), ", the cluster runs ", base::kVersion),
                "build the program with the cluster's version");
  }
  RAYO_RETURN_IF_ERROR(stream.write(frame_of(frame.call_id, std::move(answer))));
  stream.close();
  return absl::OkStatus();
}

}  // namespace rayo::head
