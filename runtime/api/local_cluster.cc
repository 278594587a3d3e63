#include "runtime/api/local_cluster.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "runtime/base/fd.h"
#include "runtime/base/text.h"

extern char** environ;

namespace rayo::api {
namespace {

using base::cat;

bool runnable(const base::Path& file) {
  std::error_code error;
  return std::filesystem::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0;
}

std::string read_all(int fd) {
  std::string text;
  char piece[4096];
  while (true) {
    const ssize_t got = ::read(fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece, static_cast<size_t>(got));
  }
}

struct Ended {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs to its end. What it says on stderr is short (the pipe holds it until stdout is read).
base::StatusOr<Ended> run(const base::Path& program, const std::vector<std::string>& arguments) {
  int out[2];
  int err[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return base::failed_errno(errno, "cannot make a pipe");
  base::Fd out_read(out[0]), out_write(out[1]);
  if (::pipe2(err, O_CLOEXEC) != 0) return base::failed_errno(errno, "cannot make a pipe");
  base::Fd err_read(err[0]), err_write(err[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out_write.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, err_write.get(), 2);
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return base::failed_errno(error, cat("cannot run ", program.string()));
  out_write.reset();
  err_write.reset();

  Ended ended;
  ended.out = read_all(out_read.get());
  ended.err = read_all(err_read.get());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return base::failed_errno(errno, cat("cannot wait for ", program.string()));
  }
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

// The command's two lines become the error: "rayo: WHAT: CAUSE" and "try: ...".
base::Status failed_start(const Ended& ended) {
  std::string what, next_step;
  for (const std::string& line : base::split(ended.err, '\n')) {
    std::string_view text = base::trim(line);
    if (text.starts_with("rayo: "))
      what = text.substr(6);
    else if (text.starts_with("try: "))
      next_step = text.substr(5);
  }
  if (what.empty()) what = cat("it ended with exit code ", ended.exit_code, ": ", base::trim(ended.err));
  if (next_step.empty()) next_step = "start a cluster with `rayo start --head` and run the program again";
  return base::failed(absl::StatusCode::kUnavailable, cat("cannot start a cluster for this program: ", what),
                      next_step);
}

std::vector<std::string> start_arguments(const InitOptions& options) {
  std::vector<std::string> arguments{"start", "--head", "--local", "--owner-pid", cat(::getpid()), "--json"};
  if (options.num_cpus) {
    arguments.push_back("--num-cpus");
    arguments.push_back(cat(*options.num_cpus));
  }
  if (options.num_gpus) arguments.insert(arguments.end(), {"--num-gpus", cat(*options.num_gpus)});
  if (!options.resources.empty()) {
    arguments.push_back("--resources");
    arguments.push_back(boost::json::serialize(boost::json::value_from(options.resources)));
  }
  if (!options.labels.empty()) {
    std::vector<std::string> labels;
    for (const auto& [key, value] : options.labels) labels.push_back(cat(key, "=", value));
    arguments.insert(arguments.end(), {"--labels", base::join(labels, ",")});
  }
  if (options.object_store_memory != 0)
    arguments.insert(arguments.end(), {"--object-store-memory", cat(options.object_store_memory)});
  return arguments;
}

}  // namespace

base::Path find_rayo() {
  std::vector<base::Path> places;
  if (const char* given = std::getenv("RAYO_BIN"); given != nullptr && *given != '\0') {
    places.push_back(given);
    places.push_back(base::Path(given) / "rayo");
  }
  std::error_code error;
  if (base::Path self = std::filesystem::read_symlink("/proc/self/exe", error); !error)
    places.push_back(self.parent_path() / "rayo");
  places.push_back(base::Path(RAYO_INSTALL_PREFIX) / "bin" / "rayo");
  const char* path = std::getenv("PATH");
  for (const std::string& folder : base::split(path == nullptr ? "" : path, ':')) {
    if (!folder.empty()) places.push_back(base::Path(folder) / "rayo");
  }
  auto found = std::find_if(places.begin(), places.end(), runnable);
  return found == places.end() ? base::Path() : *found;
}

base::StatusOr<LocalCluster> LocalCluster::start(const InitOptions& options) {
  LocalCluster cluster;
  cluster.rayo_ = find_rayo();
  if (cluster.rayo_.empty()) {
    return base::failed(absl::StatusCode::kUnavailable,
                        "no cluster runs here, and the program `rayo` to start one is not to be found",
                        "put `rayo` on PATH or name it in RAYO_BIN; or start a cluster with `rayo start --head`");
  }
  RAYO_ASSIGN_OR_RETURN(Ended ended, run(cluster.rayo_, start_arguments(options)));
  if (ended.exit_code != 0) return failed_start(ended);
  boost::system::error_code error;
  const boost::json::value document = boost::json::parse(ended.out, error, {}, {.allow_invalid_utf8 = true});
  const boost::json::object* said = error ? nullptr : document.if_object();
  const boost::json::value* node_dir = said == nullptr ? nullptr : said->if_contains("node_dir");
  const boost::json::value* address = said == nullptr ? nullptr : said->if_contains("address");
  if (node_dir == nullptr || !node_dir->is_string() || address == nullptr || !address->is_string()) {
    return base::failed(absl::StatusCode::kUnavailable,
                        cat("cannot start a cluster for this program: ", cluster.rayo_.string(), " answered '",
                            base::trim(ended.out), "'"),
                        "is that `rayo` of this version? RAYO_BIN names another one");
  }
  cluster.node_.dir = std::string(node_dir->as_string());
  cluster.address_ = std::string(address->as_string());
  return cluster;
}

void LocalCluster::stop() {
  auto ended = run(rayo_, {"stop", "--address", address_});
  static_cast<void>(ended);  // whatever it says: the keepers end the cluster with this process at the latest
}

}  // namespace rayo::api
