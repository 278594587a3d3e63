// One transfer's connection, blocking, with or without TLS inside. Used by one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/rpc/tls_pump.h"

namespace rayo::raylet {

class TransferLink {
 public:
  // `stall`: a read or write that moves no byte for so long fails with DeadlineExceeded.
  TransferLink(base::Fd fd, std::optional<rpc::TlsPump> tls, base::Duration stall);

  // The whole handshake, where there is TLS; DeadlineExceeded at `deadline`, however many bytes came. Of a server: who
  // has not shown the key yet holds nothing for long. A client's is a part of its first write.
  base::Status shake_hands(base::TimePoint deadline);
  base::Status write(std::span<const std::byte> bytes);
  base::Status read_exact(std::span<std::byte> bytes);
  // What came, at least one byte, at most bytes.size().
  base::StatusOr<size_t> read_some(std::span<std::byte> bytes);

 private:
  base::Status send_all(std::string_view bytes);
  base::StatusOr<size_t> receive(std::span<std::byte> bytes);
  base::StatusOr<size_t> receive_tls(std::span<std::byte> bytes);
  base::Status feed_tls();  // what comes next
  base::Status flush_tls();

  base::Fd fd_;
  std::optional<rpc::TlsPump> tls_;
};

}  // namespace rayo::raylet
