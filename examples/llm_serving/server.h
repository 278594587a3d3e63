// A running `rayo serve`: HTTP, the service, the replicas, and the place where status, stop and scale find it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "examples/llm_serving/serve_options.h"

namespace serving {

// What a program ends with: an exit code, and where it is not 0, two lines for people.
struct Ending {
  int code = 0;
  std::string what;
  std::string next;
};

// Until a signal, `rayo serve stop`, or what makes it impossible. `ready`: called once, when a replica answers.
Ending serve(const ServeOptions& options, const std::function<void(uint16_t port)>& ready = {});

// `rayo serve status|stop|scale` of the endpoint at options.port.
Ending control(const ServeOptions& options);

}  // namespace serving
