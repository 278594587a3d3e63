#include "runtime/api/cluster.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include <rayo/error.h>

#include "runtime/api/local_cluster.h"
#include "runtime/base/session.h"
#include "runtime/base/text.h"
#include "runtime/worker/failure.h"
#include "runtime/worker/process.h"

namespace rayo::api {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

[[noreturn]] void throw_status(const base::Status& status) { throw_error(worker::record_of(status)); }

class ClusterSession final : public Session {
 public:
  ClusterSession(std::unique_ptr<worker::Process> process, std::optional<LocalCluster> own)
      : process_(std::move(process)), own_(std::move(own)) {}

  internal::Backend& backend() override { return process_->backend(); }
  void end(bool process_ends) override {
    process_->shutdown();
    if (own_ && !process_ends) own_->stop();  // else its keepers see to it
  }

 private:
  std::unique_ptr<worker::Process> process_;
  std::optional<LocalCluster> own_;
};

// RAYO_TOKEN, else the file that RAYO_TOKEN_FILE names, else the session's own.
std::string find_token(const base::Session* session) {
  if (std::string token = environment("RAYO_TOKEN"); !token.empty()) return token;
  std::string file = environment("RAYO_TOKEN_FILE");
  if (file.empty() && session != nullptr) file = session->token_file();
  if (file.empty()) return {};
  auto token = base::read_file(file);
  return token.ok() ? std::string(base::trim(*token)) : std::string();
}

base::StatusOr<std::unique_ptr<worker::Process>> connect_here(worker::DriverTarget target,
                                                              const base::Session& session) {
  const base::NodeFiles* node = session.local_raylet();
  if (node == nullptr) {  // only the head stands on this machine
    target.host_port = session.address;
    target.token = find_token(&session);
  } else {
    target.raylet_socket = node->raylet_socket();
  }
  return worker::Process::connect(target);
}

// A cluster of other machines, or of another user of this one.
base::StatusOr<std::unique_ptr<worker::Process>> connect_there(worker::DriverTarget target,
                                                               const std::string& address) {
  target.token = find_token(nullptr);
  base::Status last = base::failed(absl::StatusCode::kInvalidArgument, base::cat("'", address, "' names no address"),
                                   "write HOST:PORT");
  for (const std::string& one : base::split(address, ',')) {
    target.host_port = base::trim(one);
    auto process = worker::Process::connect(target);
    if (process.ok()) return process;
    last = process.status();
    if (last.code() != absl::StatusCode::kUnavailable && last.code() != absl::StatusCode::kDeadlineExceeded) break;
  }
  return last;
}

std::unique_ptr<Session> joined(base::StatusOr<std::unique_ptr<worker::Process>> process,
                                std::optional<LocalCluster> own = std::nullopt) {
  if (!process.ok()) throw_status(process.status());
  return std::make_unique<ClusterSession>(*std::move(process), std::move(own));
}

// What can be chosen only for a cluster of this program's own, and the flag of `rayo start` that chooses it elsewhere.
void refuse_choices(const InitOptions& options) {
  std::vector<std::string> names, flags;
  const auto look = [&](bool given, const char* name, const char* flag) {
    if (!given) return;
    names.emplace_back(name);
    flags.emplace_back(flag);
  };
  look(options.num_cpus.has_value(), "num_cpus", "--num-cpus");
  look(options.num_gpus.has_value(), "num_gpus", "--num-gpus");
  look(!options.resources.empty(), "resources", "--resources");
  look(!options.labels.empty(), "labels", "--labels");
  look(options.object_store_memory != 0, "object_store_memory", "--object-store-memory");
  if (names.empty()) return;
  throw_error({.kind = ErrorKind::kInvalid,
               .text = base::cat("init joins a cluster that runs already: ", base::join(names, ", "),
                                 " cannot be chosen for it"),
               .next_step = base::cat("leave it out, and give a node ", base::join(flags, ", "), " at `rayo start`")});
}

// A cluster that runs already; null where the options let this program start its own instead.
std::unique_ptr<Session> join_running(const InitOptions& options, const worker::DriverTarget& target) {
  const bool any = options.address.empty() || options.address == "auto";
  const std::string address = any ? environment("RAYO_ADDRESS") : options.address;
  auto session = base::find_session(address);
  if (session.ok() || !address.empty()) refuse_choices(options);
  if (session.ok()) return joined(connect_here(target, *session));
  if (session.status().code() != absl::StatusCode::kNotFound) throw_status(session.status());
  if (!address.empty()) return joined(connect_there(target, address));
  if (!options.address.empty()) {
    throw_error(
        {.kind = ErrorKind::kUnavailable,
         .text = "init found no cluster that runs already",
         .next_step = "`rayo start --head`, set RAYO_ADDRESS, or leave the address out for one of this program's own"});
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Session> join_cluster(const InitOptions& options, const std::vector<std::string>& arguments) {
  worker::DriverTarget target;
  target.name_space = options.name_space;
  target.arguments = arguments;
  target.log_to_driver = options.log_to_driver;
  if (options.address != "local") {
    if (auto session = join_running(options, target)) return session;
  }
  auto own = LocalCluster::start(options);
  if (!own.ok()) throw_status(own.status());
  target.raylet_socket = own->raylet_socket();
  return joined(worker::Process::connect(target), *std::move(own));
}

}  // namespace rayo::api
