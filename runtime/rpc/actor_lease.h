// The lease of an actor's life: who repeats a start, and who starts it before the head says so, names the same one.
#pragma once

#include <rayo/id.h>

namespace rayo::rpc {

inline LeaseId lease_of(const ActorId& actor, uint32_t incarnation) { return {actor.high, actor.low + incarnation}; }

}  // namespace rayo::rpc
