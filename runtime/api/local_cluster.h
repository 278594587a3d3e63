// A cluster of one node that belongs to this program: started by `rayo start --head --local --owner-pid PID`,
// found by nobody else, and ended with the program (its keepers watch the pid) or by stop().
//
// Any thread; start takes about as long as `rayo start`.
#pragma once

#include <string>

#include <rayo/options.h>

#include "runtime/base/session.h"
#include "runtime/base/status.h"

namespace rayo::api {

class LocalCluster {
 public:
  // Unavailable with what `rayo start` said; NotFound where there is no `rayo`.
  static base::StatusOr<LocalCluster> start(const InitOptions& options);

  std::string raylet_socket() const { return node_.raylet_socket(); }

  // `rayo stop`: returns when it is gone.
  void stop();

 private:
  base::Path rayo_;
  std::string address_;
  base::NodeFiles node_;
};

// Where `rayo` is: RAYO_BIN (the program or its folder), beside this program, in the prefix Rayo was
// installed in, on PATH; empty: nowhere.
base::Path find_rayo();

}  // namespace rayo::api
