// The job of a detached actor: its own, of an id that everybody who knows the actor's can tell.
#pragma once

#include <rayo/id.h>

namespace rayo::rpc {

inline JobId own_job_of(const ActorId& actor) { return {~actor.high, actor.low}; }

}  // namespace rayo::rpc
