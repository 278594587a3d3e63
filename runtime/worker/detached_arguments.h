// A detached actor outlives its creator, and so the objects that its constructor was given as refs, which end with their
// creator's job. Small values therefore travel in its spec, which the head keeps: each of its lives has them.
#pragma once

#include <optional>
#include <span>

#include <rayo/error.h>
#include <rayo/internal/backend.h>

#include "runtime/proto/common.pb.h"

namespace rayo::worker {

// Puts the values of `refs` into `spec`, whose name and max_restarts are set. Where one cannot go there (it is too large, or
// not known yet) and the actor may restart: why it is not created.
std::optional<ErrorRecord> carry_arguments(std::span<const internal::ObjectHandle> refs, proto::ActorSpec& spec);

}  // namespace rayo::worker
