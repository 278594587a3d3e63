#include "runtime/raylet/frame_wire.h"

#include <cstring>
#include <fcntl.h>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/rpc/frame.h"

namespace rayo::raylet {
namespace {

constexpr size_t kBacklogLimit = 64u << 20;  // bytes that wait for a process that does not read: it is cut off beyond
constexpr uint64_t kMaxDescriptors = 16;     // in one frame; PeerLink, the largest, has 4

class UnixWire : public FrameWire {
 public:
  explicit UnixWire(std::unique_ptr<base::Stream> stream) : stream_(std::move(stream)) {}

  base::StatusOr<ReceivedFrame> read(base::TimePoint deadline) override {
    rpc::FrameHeader header;
    RAYO_RETURN_IF_ERROR(stream_->read_exact(std::as_writable_bytes(std::span(&header, 1)), deadline));
    if (!rpc::check_header(header) || header.kind != rpc::FrameKind::kControl || header.sequence > kMaxDescriptors)
      return base::failed(absl::StatusCode::kInvalidArgument, "what came on the raylet's socket is no control frame");
    body_.resize(header.length);
    RAYO_RETURN_IF_ERROR(stream_->read_exact(std::as_writable_bytes(std::span(body_)), deadline));
    ReceivedFrame frame;
    frame.call_id = header.call_id;
    RAYO_ASSIGN_OR_RETURN(frame.descriptors, stream_->take_descriptors(header.sequence));
    if (!frame.message.ParseFromArray(body_.data(), static_cast<int>(body_.size())))
      return base::failed(absl::StatusCode::kInvalidArgument,
                          base::cat("a frame of ", body_.size(), " bytes is no message"));
    return frame;
  }

  bool send(uint64_t call_id, const proto::ToWorker& message, std::vector<base::Fd> descriptors) override {
    size_t count = descriptors.size();
    if (!stream_->send(encode_frame(call_id, message, count), std::move(descriptors))) return false;
    if (stream_->backlog() <= kBacklogLimit) return true;
    stream_->close();
    return false;
  }

  void close() override { stream_->close(); }

  pid_t peer_pid() const override {
    auto peer = stream_->peer();
    return peer.ok() ? peer->pid : 0;
  }

 private:
  std::unique_ptr<base::Stream> stream_;
  std::string body_;
};

}  // namespace

std::unique_ptr<FrameWire> make_unix_wire(std::unique_ptr<base::Stream> stream) {
  return std::make_unique<UnixWire>(std::move(stream));
}

base::Fd duplicate(int fd) { return base::Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

std::string encode_frame(uint64_t call_id, const google::protobuf::MessageLite& message, size_t descriptors) {
  rpc::FrameHeader header;
  header.call_id = call_id;
  header.sequence = descriptors;
  header.length = static_cast<uint32_t>(message.ByteSizeLong());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  message.AppendToString(&bytes);
  return bytes;
}

}  // namespace rayo::raylet
