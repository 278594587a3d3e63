// A process of a cluster as the public API sees it: a driver that called init, a worker that runs its tasks and actors,
// or the zygote that forks workers. runtime/api calls this and nothing else of this folder.
//
//   if (worker::started_as_worker()) worker::serve(arguments, publish); // never returns
//   auto process = worker::Process::connect({.raylet_socket = path});   // a driver
//   if (!process.ok()) throw ...;
//   internal::ObjectHandle hits = (*process)->backend().call(actor, request);
//
// A worker or zygote is told by its environment what it is (worker_environment below); the raylet sets it. Owned by the
// API's one current context; connect and shutdown from the thread that calls init and shutdown, backend() from any
// thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <rayo/internal/registry.h>

#include "runtime/base/status.h"
#include "runtime/worker/zygote.h"

namespace rayo::worker {

// What a raylet puts into the environment of a worker that it starts by exec.
namespace worker_environment {
inline constexpr const char* kProcess = "RAYO_WORKER";        // its process id, 32 hexadecimal digits
inline constexpr const char* kSocket = "RAYO_WORKER_SOCKET";  // path of the raylet's unix socket
inline constexpr const char* kZygote = "RAYO_WORKER_ZYGOTE";  // "1": become the zygote where one thread is all there is
}  // namespace worker_environment

// True in a process that a raylet started; answers before init, from any thread.
bool started_as_worker();

struct DriverTarget {
  std::string raylet_socket;           // path of raylet.sock of a node on this machine; empty: remote
  std::string host_port;               // remote: the published port of the head, or of any raylet ...
  std::string token;                   // ... and the cluster's token, SECRET.FINGERPRINT
  std::string name_space;              // "": one of the job's own
  std::vector<std::string> arguments;  // argv: workers are started with it
  bool log_to_driver = true;           // what workers print is printed here
};

class Process {
 public:
  // Says hello to the raylet, offers the program as a package. Unavailable: nobody answers there; PermissionDenied: the
  // token or the uid is refused; FailedPrecondition: another version.
  static base::StatusOr<std::unique_ptr<Process>> connect(const DriverTarget& target);

  virtual ~Process() = default;  // shutdown() first, where it has not been called

  virtual internal::Backend& backend() = 0;
  // Goodbye: waits at most 1 s until the raylet has ended this driver's actors; then every call on the backend throws
  // Unavailable, and handles may still be released.
  virtual void shutdown() = 0;
};

// Serves the raylet that started this process until it says Exit or is gone; then the process ends. `arguments` as in
// DriverTarget. Before any user code runs (in a zygote: in each child) `publish` is told the backend that
// internal::backend() must answer. Returns in no case, also not in the children that a zygote forks.
using Publish = void (*)(internal::Backend& backend);
// What a language wants to be told besides. Null: nothing.
struct LanguageHooks {
  ForkHooks fork;
  // The caller of a call that runs wants no result any more. Any thread, with the backend's lock held.
  void (*cancelled)(internal::OpenCall& call) = nullptr;
};
[[noreturn]] void serve(const std::vector<std::string>& arguments, Publish publish, const LanguageHooks& hooks = {});

}  // namespace rayo::worker
