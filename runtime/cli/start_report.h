// What `rayo start` says at its end.
#pragma once

#include "runtime/base/session.h"
#include "runtime/base/settings.h"
#include "runtime/cli/start_options.h"
#include "runtime/cli/start_place.h"

namespace rayo::cli {

struct StartReport {
  const StartOptions& options;
  const StartPlace& place;
  const base::Session& session;
  base::NodeFiles node;
  base::Readiness head;  // empty where only a node was started
  base::Readiness raylet;
  double seconds = 0;
  bool alone = true;  // the only cluster of this home: commands need no --address
};

std::string start_text(const StartReport& report);
std::string start_json(const StartReport& report);

// "RAYO_TOKEN=... rayo start --address HOST:PORT": pasted on another machine it joins. The token is read from
// the session's file; for a loopback cluster, that no other machine reaches, there is none: then "rayo start
// --address ..." for a further node here.
std::string join_line(const base::Session& session);

}  // namespace rayo::cli
