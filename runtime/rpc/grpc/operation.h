// Inside of this folder: one operation that gRPC carries out for a fiber.
#pragma once

#include "runtime/base/loop/event.h"

namespace rayo::rpc {

// Begun and awaited by a fiber, ended on a thread of gRPC.
class Operation {
 public:
  explicit Operation(base::Loop& loop) : loop_(loop) {}
  void begin() { ended_.reset(); }
  // On gRPC's thread.
  void end(bool ok) {
    loop_.defer([this, ok] {
      ok_ = ok;
      ended_.set();
    });
  }
  bool wait(base::TimePoint deadline) { return ended_.wait(deadline); }
  bool ok() const { return ok_; }

 private:
  base::Loop& loop_;
  base::Event ended_;
  bool ok_ = false;
};

}  // namespace rayo::rpc
