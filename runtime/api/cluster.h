// init without in_process: which cluster this program belongs to, and how it gets there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <rayo/options.h>

#include "runtime/api/session.h"

namespace rayo::api {

// In this order: the address of the options or of RAYO_ADDRESS; the one live session of this home; a cluster
// of this program's own. Throws a subclass of rayo::Error that names what was tried.
std::unique_ptr<Session> join_cluster(const InitOptions& options, const std::vector<std::string>& arguments);

}  // namespace rayo::api
