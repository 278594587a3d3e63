// The packages of this node's jobs for other nodes: brought to the head once more than this node is in the
// cluster.
#pragma once

#include <rayo/id.h>

#include "runtime/raylet/parts.h"

namespace rayo::raylet {

// Spawns a fiber; what the head has already is not sent again.
void upload_packages(Parts& parts);
void upload_package(Parts& parts, PackageId package);

}  // namespace rayo::raylet
