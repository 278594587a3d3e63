// What each frame of a worker or driver asks, handed to the part that does it. Frames of one process come in
// order; what waits does so in a fiber of its own, so that the next frame is read meanwhile.
#pragma once

#include "runtime/raylet/frame_wire.h"
#include "runtime/raylet/parts.h"
#include "runtime/raylet/processes.h"

namespace rayo::raylet {

// False: the process said goodbye, its connection is to be closed.
bool dispatch_frame(Parts& parts, ProcessId from, ReceivedFrame frame);

}  // namespace rayo::raylet
