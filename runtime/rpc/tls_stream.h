// A blocking stream over a socket and a TlsPump, with a deadline for everything: for threads that may wait
// (join, command line).
//
//   TlsStream stream(std::move(fd), TlsPump::client(key), deadline);
//   stream.write_message(bytes); auto answer = stream.read_message(64 << 10);
//
// Messages stand behind their length (u32, little-endian). One thread at a time.
// Errors: DeadlineExceeded; PermissionDenied and DataLoss from the pump; Aborted where the peer ends the
// socket early.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/rpc/tls_pump.h"

namespace rayo::rpc {

class TlsStream {
 public:
  TlsStream(base::Fd socket, TlsPump pump, base::TimePoint deadline);

  base::Status handshake();
  base::Status write_message(std::string_view message);
  // InvalidArgument for one longer than `limit` (nothing is allocated for it).
  base::StatusOr<std::string> read_message(size_t limit);
  // Bytes without a length before them.
  base::Status write(std::string_view bytes);
  base::StatusOr<std::string> read(size_t size);
  // Says farewell; errors no longer matter.
  void close();

 private:
  base::Status flush();
  base::Status receive();

  base::Fd socket_;
  TlsPump pump_;
  base::TimePoint deadline_;
};

// Sends or receives (this for tests) exactly these bytes in clear; the same errors.
base::Status send_all(int fd, std::string_view bytes, base::TimePoint deadline);
base::Status receive_all(int fd, char* out, size_t size, base::TimePoint deadline);

}  // namespace rayo::rpc
