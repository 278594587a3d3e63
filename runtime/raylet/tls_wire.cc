#include "runtime/raylet/tls_wire.h"

#include <cstring>
#include <string>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/rpc/frame.h"

namespace rayo::raylet {
namespace {

constexpr size_t kReadAtOnce = 256u << 10;   // bytes of ciphertext
constexpr size_t kBacklogLimit = 64u << 20;  // bytes that wait for a driver that does not read

class TlsWire : public FrameWire {
 public:
  TlsWire(std::unique_ptr<base::Stream> stream, rpc::TlsPump pump)
      : stream_(std::move(stream)), pump_(std::move(pump)) {}

  base::StatusOr<ReceivedFrame> read(base::TimePoint deadline) override {
    rpc::FrameHeader header;
    RAYO_RETURN_IF_ERROR(fill(sizeof header, deadline));
    std::memcpy(&header, plain_.data(), sizeof header);
    if (!rpc::check_header(header) || header.kind != rpc::FrameKind::kControl || header.sequence != 0)
      return base::failed(absl::StatusCode::kInvalidArgument, "what a remote driver sent is no control frame");
    RAYO_RETURN_IF_ERROR(fill(sizeof header + header.length, deadline));
    ReceivedFrame frame;
    frame.call_id = header.call_id;
    bool parsed = frame.message.ParseFromArray(plain_.data() + sizeof header, static_cast<int>(header.length));
    plain_.erase(0, sizeof header + header.length);
    if (!parsed)
      return base::failed(absl::StatusCode::kInvalidArgument,
                          base::cat("a frame of ", header.length, " bytes is no message"));
    return frame;
  }

  // Descriptors cannot travel: whoever sends to a remote driver sends none.
  bool send(uint64_t call_id, const proto::ToWorker& message, std::vector<base::Fd>) override {
    if (!pump_.write(encode_frame(call_id, message, 0)).ok()) return false;
    if (!flush()) return false;
    if (stream_->backlog() <= kBacklogLimit) return true;
    stream_->close();
    return false;
  }

  void close() override { stream_->close(); }
  pid_t peer_pid() const override { return 0; }

 private:
  base::Status fill(size_t bytes, base::TimePoint deadline) {
    std::string cipher(kReadAtOnce, '\0');
    while (plain_.size() < bytes) {
      RAYO_ASSIGN_OR_RETURN(size_t got, stream_->read_some(std::as_writable_bytes(std::span(cipher)), deadline));
      if (got == 0) return base::failed(absl::StatusCode::kUnavailable, "the remote driver closed");
      base::Status fed = pump_.feed(std::string_view(cipher.data(), got));
      flush();  // also the alert, where it failed
      RAYO_RETURN_IF_ERROR(fed);
      plain_.append(pump_.plaintext());
      pump_.consume(pump_.plaintext().size());
      if (pump_.peer_closed()) return base::failed(absl::StatusCode::kUnavailable, "the remote driver closed");
    }
    return absl::OkStatus();
  }

  bool flush() {
    std::string pending(pump_.pending_ciphertext());
    if (pending.empty()) return !stream_->closed();
    pump_.sent(pending.size());
    return stream_->send(std::move(pending));
  }

  std::unique_ptr<base::Stream> stream_;
  rpc::TlsPump pump_;
  std::string plain_;
};

}  // namespace

std::unique_ptr<FrameWire> make_tls_wire(std::unique_ptr<base::Stream> stream, rpc::TlsPump pump) {
  return std::make_unique<TlsWire>(std::move(stream), std::move(pump));
}

}  // namespace rayo::raylet
