// Where a daemon is to listen: which of this machine's addresses, and why that one.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/cli/start_options.h"

namespace rayo::cli {

struct StartPlace {
  std::string host;       // numeric
  std::string data_host;  // of --data-interface
  std::string why;        // for people: "eth0, of the default route; also up: docker0 172.17.0.1"
  bool local = false;     // loopback alone
};

// --local, --node-ip, --interface; else for a head the interface with the default route, for a node the one
// on the way to its head. NotFound lists what there is (exit 2).
base::StatusOr<StartPlace> choose_place(const StartOptions& options);

}  // namespace rayo::cli
