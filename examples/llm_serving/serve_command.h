// What `rayo serve` does in its own process: looks at the model, finds the endpoint or starts one, and tells how it goes.
#pragma once

#include "examples/llm_serving/ending.h"
#include "examples/llm_serving/serve_options.h"

namespace serving {

// `rayo serve MODEL`: until the model answers (--detach), or a signal or what makes it impossible.
Ending serve(const ServeOptions& options);

// `rayo serve status|stop|scale` of the endpoint at options.port.
Ending control(const ServeOptions& options);

// Whether there is a cluster that outlives this command. Before rayo::init.
bool cluster_runs();

}  // namespace serving
