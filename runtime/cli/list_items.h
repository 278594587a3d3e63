// The items of `rayo list`: documents from messages, filters on them, and their table. Pure; not for other
// files than list.cc and tests.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/proto/head.pb.h"

namespace rayo::cli {

// `what`: nodes, workers, actors, tasks, objects, jobs.
boost::json::array list_items(std::string_view what, const proto::ListReply& reply);

// Keeps the items that all filters fit. A filter is KEY=VALUE, the key with dots into inner objects
// ("resources.cpu.free=2"); InvalidArgument for another shape, or a key that no item has.
base::StatusOr<boost::json::array> filter_items(boost::json::array items, const std::vector<std::string>& filters);

std::string list_text(std::string_view what, const boost::json::array& items);

}  // namespace rayo::cli
