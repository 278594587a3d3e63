// A remote driver's wire: the frames of runtime/proto/worker.proto over TCP, inside TLS 1.3 with the key of
// its data header.
#pragma once

#include <memory>

#include "runtime/base/loop/socket.h"
#include "runtime/raylet/frame_wire.h"
#include "runtime/rpc/tls_pump.h"

namespace rayo::raylet {

// `stream` stands behind the 64 bytes of the header.
std::unique_ptr<FrameWire> make_tls_wire(std::unique_ptr<base::Stream> stream, rpc::TlsPump pump);

}  // namespace rayo::raylet
