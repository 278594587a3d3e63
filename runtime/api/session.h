// What init made and shutdown ends: this process's part in a cluster, or a world of its own.
#pragma once

#include <memory>

#include <rayo/internal/backend.h>

namespace rayo::api {

class Session {
 public:
  virtual ~Session() = default;
  virtual internal::Backend& backend() = 0;
  // From the thread of shutdown, or at the process's end; then the backend refuses everything but releases.
  virtual void end(bool process_ends) = 0;
};

}  // namespace rayo::api
