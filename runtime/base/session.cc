#include "runtime/base/session.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdlib>
#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "runtime/base/address.h"
#include "runtime/base/fd.h"
#include "runtime/base/ids.h"
#include "runtime/base/text.h"

namespace rayo::base {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr size_t kLongestName = 40;

Path from_environment(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return {};
  std::error_code error;
  Path absolute = fs::absolute(value, error);
  return error ? Path(value) : absolute.lexically_normal();
}

// Of the user database: cron and some service managers set no HOME, and the user's shell does.
Path registered_home() {
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  const Path home = found->pw_dir;
  return home.is_absolute() ? home : Path();
}

Path sessions_dir() { return home_dir() / "sessions"; }
Path pointer_file(const std::string& name) { return sessions_dir() / (name + ".json"); }

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* found = object.if_contains({name.data(), name.size()});
  return found && found->is_string() ? std::string(found->get_string().c_str()) : std::string();
}

std::vector<NodeFiles> nodes_of(const Path& dir) {
  std::vector<NodeFiles> nodes;
  std::error_code error;
  for (auto entry = fs::directory_iterator(dir, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with("node-")) continue;
    nodes.push_back({entry->path(), std::atoi(name.c_str() + 5)});
  }
  std::sort(nodes.begin(), nodes.end(), [](const NodeFiles& a, const NodeFiles& b) { return a.number < b.number; });
  return nodes;
}

std::optional<Session> read_pointer(const Path& file) {
  auto content = read_file(file);
  if (!content.ok()) return std::nullopt;
  json::error_code error;
  json::value value = json::parse(*content, error, {}, {.allow_invalid_utf8 = true});  // it holds paths
  if (error || !value.is_object()) return std::nullopt;
  const json::object& object = value.get_object();
  Session session;
  session.name = text_of(object, "name");
  session.dir = text_of(object, "dir");
  session.state = text_of(object, "state");
  session.cluster = text_of(object, "cluster");
  session.cluster_name = text_of(object, "cluster_name");
  session.address = text_of(object, "address");
  session.listen = text_of(object, "listen");
  session.http = text_of(object, "http");
  session.machine = text_of(object, "machine");
  if (auto* head = object.if_contains("head")) session.has_head = head->is_bool() && head->get_bool();
  if (auto* owner = object.if_contains("owner_pid"))
    session.owner_pid = owner->is_int64() ? static_cast<int>(owner->get_int64()) : 0;
  if (session.name.empty() || session.dir.empty()) return std::nullopt;
  session.nodes = nodes_of(session.dir);
  return session;
}

Status check_name(std::string_view name) {
  bool plain = !name.empty() && name.size() <= kLongestName && name.front() != '-' &&
               name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
                   std::string_view::npos;
  if (plain) return {};
  return failed(absl::StatusCode::kInvalidArgument, cat("'", name, "' is not a cluster's name"),
                cat("use letters, digits, '-' and '_', at most ", kLongestName));
}

// Sockets, pid files and SQLite's locks do not work across machines: a shared home would mix two machines'
// sessions.
Status check_local_disk(const Path& dir) {
  struct Kind {
    uint32_t magic;
    const char* name;
  };
  constexpr std::array kNetwork = {Kind{0x6969, "NFS"},      Kind{0xff534d42, "CIFS"}, Kind{0xfe534d42, "SMB2"},
                                   Kind{0x517b, "SMB"},      Kind{0x00c36400, "Ceph"}, Kind{0x0bd00bd0, "Lustre"},
                                   Kind{0x47504653, "GPFS"}, Kind{0x5346414f, "AFS"},  Kind{0x01021997, "9P"}};
  struct statfs found {};
  if (statfs(dir.c_str(), &found) != 0) return failed_errno(errno, cat("cannot look at ", dir.string()));
  for (const Kind& kind : kNetwork) {
    if (static_cast<uint32_t>(found.f_type) != kind.magic) continue;
    return failed(absl::StatusCode::kFailedPrecondition,
                  cat("cannot use ", dir.string(), ": it lies on a network file system (", kind.name, ")"),
                  "set RAYO_RUNTIME_DIR to a directory on a disk of this machine, such as /tmp/rayo");
  }
  return {};
}

Status check_socket_length(const Path& dir) {
  // The longest name below: node-999/control.sock, and a ".new" beside it.
  size_t needed = (dir / "node-999" / "control.sock.new").string().size();
  constexpr size_t kRoom = sizeof(sockaddr_un::sun_path) - 1;
  if (needed <= kRoom) return {};
  return failed(absl::StatusCode::kFailedPrecondition,
                cat("cannot use ", dir.string(), ": a socket below it would have ", needed,
                    " bytes of path, the system takes ", kRoom),
                "set RAYO_RUNTIME_DIR to a shorter path, such as /tmp/rayo");
}

// A directory that nobody else (another home in the same runtime directory) has taken.
StatusOr<Path> claim_dir(const std::string& name) {
  for (int attempt = 1; attempt < 1000; ++attempt) {
    Path dir = runtime_dir() / (attempt == 1 ? name : cat(name, ".", attempt));
    RAYO_RETURN_IF_ERROR(check_socket_length(dir));
    if (::mkdir(dir.c_str(), 0700) == 0) return dir;
    if (errno != EEXIST) return failed_errno(errno, cat("cannot create ", dir.string()));
  }
  return failed(absl::StatusCode::kResourceExhausted,
                cat("cannot create ", (runtime_dir() / name).string(), ": the name is taken 999 times"),
                "choose another --name");
}

bool lock(const Fd& fd) {
  int result = -1;
  while (fd && (result = ::flock(fd.get(), LOCK_EX)) != 0 && errno == EINTR) continue;
  return result == 0;
}

// While it lives, no other command of this home takes a name or clears one away. The kernel lets go of it when its
// holder dies. The directory itself is locked: that leaves no file and works on a full disk.
class HomeLock {
 public:
  HomeLock() : fd_(::open(sessions_dir().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (lock(fd_)) return;
    // NFS locks only what is open for writing, which no directory is.
    fd_ = Fd(::open((sessions_dir() / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    lock(fd_);
  }

 private:
  Fd fd_;
};

// With the lock held. A name's pointer and token go only where they are this session's: another may have the name by now.
void clear(const Session& session) {
  if (session.live()) return;
  std::error_code ignored;  // what cannot be removed is found again by the next start of that name
  for (const Path& dir : {session.dir, session.state}) {
    if (!dir.empty()) fs::remove_all(dir, ignored);
  }
  for (const Path& parent : {session.dir.parent_path(), session.state.parent_path()}) {
    if (parent.filename().string().starts_with("rayo") || parent.filename() == "state")
      fs::remove(parent, ignored);  // only when empty
  }
  auto named = read_pointer(pointer_file(session.name));
  if (named && named->dir != session.dir) return;
  fs::remove(session.token_file(), ignored);
  fs::remove(pointer_file(session.name), ignored);
}

Status name_taken(const Session& earlier) {
  std::string what = cat("cannot start '", earlier.name, "': a cluster of that name ");
  if (!earlier.address.empty())
    return failed(absl::StatusCode::kAlreadyExists, cat(what, "runs at ", earlier.address),
                  "choose another --name, or end it: rayo stop");
  if (live_pid(earlier.starter_pid()))
    return failed(absl::StatusCode::kAlreadyExists, cat(what, "is being started"),
                  "wait for it, or choose another --name");
  return failed(absl::StatusCode::kAlreadyExists, cat(what, "was left half started"),
                "choose another --name, or end it: rayo stop --all");
}

std::string describe(const std::vector<Session>& sessions) {
  std::vector<std::string> parts;
  for (const Session& session : sessions) parts.push_back(cat(session.name, " (", session.address, ")"));
  return join(parts, ", ");
}

bool same_place(const Session& session, const HostPort& wanted, const std::vector<std::string>& wanted_numeric) {
  auto published =
      parse_host_ports(session.listen.empty() ? session.address : cat(session.address, ",", session.listen));
  if (!published.ok()) return false;
  for (const HostPort& address : *published) {
    if (address.port != wanted.port) continue;
    if (address.host == wanted.host) return true;
    auto own_numeric = resolve_host(address.host);
    for (const std::string& numeric : wanted_numeric) {
      if (session.has_head && is_local_address(numeric)) return true;
      if (own_numeric.ok() && std::find(own_numeric->begin(), own_numeric->end(), numeric) != own_numeric->end())
        return true;
    }
  }
  return false;
}

StatusOr<std::vector<Session>> sessions_at(std::string_view address) {
  RAYO_ASSIGN_OR_RETURN(std::vector<HostPort> wanted, parse_host_ports(address));
  std::vector<Session> exact, found;
  for (const HostPort& one : wanted) {
    auto numeric = resolve_host(one.host);
    for (Session& session : sessions_of_home()) {
      if (session.address.empty() || !session.live()) continue;
      if (session.address == one.text()) exact.push_back(session);
      bool known =
          std::any_of(found.begin(), found.end(), [&](const Session& other) { return other.name == session.name; });
      if (!known && same_place(session, one, numeric.ok() ? *numeric : std::vector<std::string>()))
        found.push_back(std::move(session));
    }
  }
  return exact.size() == 1 ? exact : found;
}

Status no_session() {
  for (const Session& session : sessions_of_home()) {
    if (session.owner_pid > 0 || session.address.empty()) continue;
    const std::string again = session.has_head ? "rayo start --head" : cat("rayo start --address ", session.address);
    if (session.rebooted())
      return failed(absl::StatusCode::kNotFound,
                    cat("no cluster is running here: '", session.name, "' ended with the last reboot of this machine"),
                    again);
    std::error_code error;
    if (!fs::exists(session.dir, error))
      return failed(absl::StatusCode::kNotFound,
                    cat("no cluster can be found here: the files of '", session.name, "' were removed from ",
                        session.dir.string(), ", and what of it still runs cannot be reached without them"),
                    cat("rayo stop ends what is left of it; then ", again));
  }
  return failed(absl::StatusCode::kNotFound,
                cat("no cluster is running here: nothing is started from ", home_dir().string()), "rayo start --head");
}

}  // namespace

bool holds_token(std::string_view variable) { return variable.starts_with("RAYO_TOKEN="); }

Path home_dir() {
  if (Path home = from_environment("RAYO_HOME"); !home.empty()) return home;
  Path user = from_environment("HOME");
  if (user.empty()) user = registered_home();
  return (user.empty() ? Path(cat("/tmp/rayo-home-", ::getuid())) : user) / ".rayo";
}

Path config_file() {
  std::error_code error;
  const Path file = home_dir() / "rayo.toml";
  return fs::exists(file, error) ? file : Path();
}

Path runtime_dir() {
  if (Path dir = from_environment("RAYO_RUNTIME_DIR"); !dir.empty()) return dir;
  Path run = cat("/run/user/", ::getuid());
  struct stat found {};
  bool ours = ::stat(run.c_str(), &found) == 0 && found.st_uid == ::getuid() && ::access(run.c_str(), W_OK) == 0;
  return ours ? run / "rayo" : Path(cat("/tmp/rayo-", ::getuid()));
}

Path state_dir() {
  if (Path dir = from_environment("RAYO_RUNTIME_DIR"); !dir.empty()) return dir / "state";
  return cat("/var/tmp/rayo-", ::getuid());
}

Path Session::token_file() const { return sessions_dir() / (name + ".token"); }

const NodeFiles* Session::local_raylet() const {
  for (const NodeFiles& node : nodes) {
    if (node.live()) return &node;
  }
  return nullptr;
}

bool Session::live() const {
  if (live_pid(starter_pid()) || live_pid(head().head_pid()) || live_pid(head().keeper_pid())) return true;
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const NodeFiles& node) { return node.live() || live_pid(node.keeper_pid()).has_value(); });
}

StatusOr<Session> create_session(std::string_view preferred, int owner_pid) {
  std::string name =
      preferred.empty() ? cat("rayo-", ObjectId{random_bits(), 0, 0}.hex().substr(0, 6)) : std::string(preferred);
  RAYO_RETURN_IF_ERROR(check_name(name));
  RAYO_RETURN_IF_ERROR(make_private_dir(home_dir()));
  RAYO_RETURN_IF_ERROR(make_private_dir(sessions_dir()));
  HomeLock lock;  // until the pointer and starter.pid say that the name is taken
  if (auto earlier = read_pointer(pointer_file(name))) {
    if (earlier->live()) return name_taken(*earlier);
    clear(*earlier);
  }
  for (const Path& dir : {runtime_dir(), state_dir()}) {
    RAYO_RETURN_IF_ERROR(make_private_dir(dir));
    RAYO_RETURN_IF_ERROR(check_local_disk(dir));
  }
  Session session;
  session.name = name;
  session.cluster_name = name;
  RAYO_ASSIGN_OR_RETURN(session.dir, claim_dir(name));
  session.state = state_dir() / session.dir.filename();
  session.machine = boot_id();
  session.owner_pid = owner_pid;
  Status made = write_pid_file(session.starter_pid(), ::getpid());
  if (made.ok()) made = make_private_dir(session.state);
  if (made.ok()) made = save_session(session);
  if (made.ok()) return session;
  ::unlink(session.starter_pid().c_str());
  clear(session);
  return made;
}

Status save_session(const Session& session) {
  json::object object{{"schema", 1},
                      {"name", session.name},
                      {"dir", session.dir.string()},
                      {"state", session.state.string()},
                      {"cluster", session.cluster},
                      {"cluster_name", session.cluster_name},
                      {"address", session.address},
                      {"listen", session.listen},
                      {"http", session.http},
                      {"head", session.has_head},
                      {"machine", session.machine},
                      {"owner_pid", session.owner_pid}};
  std::string content = json::serialize(object) + "\n";
  RAYO_RETURN_IF_ERROR(write_private_file(session.dir / "session.json", content));
  return write_private_file(pointer_file(session.name), content);
}

StatusOr<NodeFiles> add_node(Session& session) {
  for (int number = session.nodes.empty() ? 1 : session.nodes.back().number + 1; number < 1000; ++number) {
    Path dir = session.dir / cat("node-", number);
    if (::mkdir(dir.c_str(), 0700) == 0) return session.nodes.emplace_back(NodeFiles{dir, number});
    if (errno != EEXIST)
      return failed_errno(errno, cat("cannot create ", dir.string()),
                          "make room on the disk, and see that it is writable");
  }
  return failed(absl::StatusCode::kResourceExhausted, cat("cannot add a node to '", session.name, "': 999 are here"),
                "rayo stop ends them");
}

std::vector<Session> sessions_of_home() {
  std::vector<Session> sessions;
  std::error_code error;
  for (auto entry = fs::directory_iterator(sessions_dir(), error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() != ".json") continue;
    if (auto session = read_pointer(entry->path())) sessions.push_back(std::move(*session));
  }
  std::sort(sessions.begin(), sessions.end(), [](const Session& a, const Session& b) { return a.name < b.name; });
  return sessions;
}

void remove_session(const Session& session) {
  HomeLock lock;
  clear(session);
}

StatusOr<Session> find_session(std::string_view address) {
  std::vector<Session> live;
  if (address.empty()) {
    for (Session& session : sessions_of_home()) {
      if (session.owner_pid == 0 && !session.address.empty() && session.live()) live.push_back(std::move(session));
    }
    if (live.empty()) return no_session();
  } else {
    RAYO_ASSIGN_OR_RETURN(live, sessions_at(address));
    if (live.empty()) {
      return failed(absl::StatusCode::kNotFound, cat("no cluster of this home is at ", address),
                    "rayo status without an address, or rayo start --head");
    }
  }
  if (live.size() == 1) return std::move(live.front());
  return failed(absl::StatusCode::kFailedPrecondition, cat("several clusters run here: ", describe(live)),
                cat("say which: --address ", live.front().address, " (or RAYO_ADDRESS)"));
}

}  // namespace rayo::base
