// The public API's ends of streams on a cluster, over Streams.
#pragma once

#include <memory>

#include <rayo/internal/backend.h>
#include <rayo/stream.h>

#include "runtime/worker/cluster_backend.h"

namespace rayo::worker {

internal::MadeStream make_stream(ClusterBackend& backend, const StreamOptions& options,
                                 const internal::StreamAddress& here);
std::unique_ptr<internal::StreamReading> open_stream(ClusterBackend& backend, const internal::StreamAddress& address);

}  // namespace rayo::worker
