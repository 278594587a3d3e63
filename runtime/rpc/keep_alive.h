// A connection whose other machine has gone silent (its power, its cable) breaks after as long as a node takes to be
// dead: 10 s. For connections that nobody else watches: those of remote drivers.
#pragma once

namespace rayo::rpc {

void break_when_silent(int socket);

}  // namespace rayo::rpc
