// Jobs that no driver begins, each of an id that everybody can tell: a detached actor's own, and that of another program
// than the driver's whose tasks and actors a job wants (a C++ program from Python).
#pragma once

#include <rayo/id.h>

namespace rayo::rpc {

inline JobId own_job_of(const ActorId& actor) { return {~actor.high, actor.low}; }

inline JobId job_of_program(const JobId& parent, const PackageId& package) {
  return {parent.high ^ package.high, parent.low ^ package.low};
}

}  // namespace rayo::rpc
