// How many files a process may have open (RLIMIT_NOFILE). A daemon of ours takes what it may; the programs that it starts
// keep what they were given, since some look at every descriptor up to the limit and select() ends at 1024.
#pragma once

#include <sys/resource.h>

#include "runtime/base/fd.h"
#include "runtime/base/status.h"

namespace rayo::base {

rlimit open_files();
// The soft limit becomes the hard one. Answers what was before: for the children.
rlimit raise_open_files();

// Descriptors 0 to 2 that were closed for us (`rayo status >&-`) are taken, so that no socket or file of ours becomes
// standard output. Before anything is opened.
void hold_standard_descriptors();

// A copy of a descriptor, close-on-exec.
StatusOr<Fd> duplicate(int fd);

}  // namespace rayo::base
