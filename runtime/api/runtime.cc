// What <rayo/runtime.h> declares. The one current session of the process stands here.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include <rayo/internal/by_name.h>
#include <rayo/internal/registry.h>
#include <rayo/runtime.h>

#include "runtime/api/cluster.h"
#include "runtime/api/current.h"
#include "runtime/api/in_process.h"
#include "runtime/api/session.h"
#include "runtime/base/open_files.h"
#include "runtime/base/text.h"
#include "runtime/worker/process.h"

namespace rayo {
namespace api {
namespace {

class InProcessSession final : public Session {
 public:
  explicit InProcessSession(const InitOptions& options) : world_(options) {}
  internal::Backend& backend() override { return world_; }
  void end(bool process_ends) override { world_.shutdown(process_ends); }

 private:
  InProcess world_;
};

constinit std::mutex g_lock;  // init and shutdown, one at a time
constinit Session* g_session = nullptr;

// Sessions that have ended stay: refs that are left compare their backend with the current one. Never
// destroyed.
std::vector<std::unique_ptr<Session>>& ended_sessions() {
  static auto* const sessions = new std::vector<std::unique_ptr<Session>>;
  return *sessions;
}

// argv of a program whose init was not given it.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string line{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::string> arguments = base::split(line, '\0');
  if (!arguments.empty() && arguments.back().empty()) arguments.pop_back();
  return arguments;
}

void check_registry() {
  const std::string collision = internal::registry_collision();
  if (collision.empty()) return;
  throw Invalid({.kind = ErrorKind::kInvalid,
                 .text = base::cat("two functions of this program have one identity: ", collision),
                 .next_step = "give one of them another name, or declare it in one header for both files"});
}

[[noreturn]] void refuse_init() {
  if (worker::started_as_worker())
    throw Invalid({.kind = ErrorKind::kInvalid,
                   .text = "rayo::init was called inside of a task or actor",
                   .next_step = "leave it out: its process has joined the cluster already"});
  throw Invalid({.kind = ErrorKind::kInvalid,
                 .text = "rayo::init was called twice",
                 .next_step = "call rayo::shutdown() before a second rayo::init"});
}

void finish(bool process_ends) {
  if (current_backend() == nullptr) return;  // also in a child of fork(), whose parent's session this is not
  std::lock_guard lock(g_lock);
  if (g_session == nullptr) return;
  g_session->end(process_ends);
  std::unique_ptr<Session> session(std::exchange(g_session, nullptr));
  set_current_backend(nullptr);
  ended_sessions().push_back(std::move(session));
}

void start(const InitOptions& options, const std::vector<std::string>& arguments) {
  if (current_backend() != nullptr) refuse_init();
  check_registry();
  internal::answer_named_calls();
  if (worker::started_as_worker() && !options.in_process) {
    worker::serve(arguments, [](internal::Backend& backend) { set_current_backend(&backend); });
  }
  std::lock_guard lock(g_lock);
  if (g_session != nullptr) {
    internal::backend();  // throws where this is a child of fork()
    refuse_init();
  }
  // Of a program with closed output: what it prints must not go into a socket of ours.
  base::hold_standard_descriptors();
  std::unique_ptr<Session> session;
  if (options.in_process)
    session = std::make_unique<InProcessSession>(options);
  else
    session = join_cluster(options, arguments);
  static const int at_exit = std::atexit([] { finish(true); });
  static_cast<void>(at_exit);
  set_current_backend(&session->backend());
  g_session = session.release();
}

}  // namespace
}  // namespace api

inline namespace v0 {

void init(int argc, char** argv, const InitOptions& options) { api::start(options, {argv, argv + argc}); }

void init(const InitOptions& options) { api::start(options, api::own_arguments()); }

void shutdown() { api::finish(false); }

bool is_initialized() { return api::current_backend() != nullptr; }

bool is_worker() { return worker::started_as_worker(); }

bool is_cancelled() {
  internal::Backend* backend = api::current_backend();
  return backend != nullptr && backend->is_cancelled();
}

ContextRecord context() { return internal::backend().context(); }

std::vector<NodeRecord> nodes() { return internal::backend().nodes(); }

std::map<std::string, double> available_resources() {
  std::map<std::string, double> available;
  for (const NodeRecord& node : nodes()) {
    if (node.state != NodeState::kAlive) continue;
    for (const auto& [name, amount] : node.free) available[name] += amount;
  }
  return available;
}

}  // namespace v0
}  // namespace rayo
