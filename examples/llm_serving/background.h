// `rayo serve --detach`: the command returns when the model answers, and the process that serves goes on in the background of this
// machine, until `rayo serve stop` or the end of its cluster.
#pragma once

#include <cstdint>
#include <functional>

namespace serving {

// Runs `work` in a child. It calls what it is given once it answers at `port`: from then on it has no terminal, and prints into
// RAYO_HOME/serve-PORT.log. The exit code: 0 at that moment, or the child's where it ends before. Before rayo::init.
int run_in_background(const std::function<int(const std::function<void(uint16_t port)>& ready)>& work);

}  // namespace serving
