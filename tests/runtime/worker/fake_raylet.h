// A raylet and a head in some 250 lines: real sockets, real worker processes (this test program, exec'd), real rings;
// one node, no resources. What the worker side does against it, it does against the real one.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <spawn.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/text.h"
#include "runtime/proto/worker.pb.h"
#include "runtime/rpc/doorbell.h"
#include "runtime/rpc/frame.h"
#include "runtime/rpc/ring.h"
#include "runtime/rpc/token.h"
#include "runtime/worker/failure.h"
#include "runtime/worker/process.h"

extern "C" char** environ;

namespace rayo::worker {

class FakeRaylet {
 public:
  // `idle_link`: after which its processes close a way that they do not use; 0: their default.
  explicit FakeRaylet(std::chrono::milliseconds idle_link = {}) : idle_link_(idle_link) {
    char name[] = "/tmp/rayo-worker-test-XXXXXX";
    dir_ = ::mkdtemp(name);
    path_ = dir_ + "/raylet.sock";
    listener_ = base::Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path_.c_str());
    ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_.get(), 64);
    accepting_ = std::thread([this] { accept_all(); });
  }
  ~FakeRaylet() {
    {
      std::lock_guard hold(mutex_);
      ending_ = true;
      for (auto& [id, pid] : pids_) ::kill(pid, SIGKILL);
      for (auto& connection : connections_) ::shutdown(connection->socket.get(), SHUT_RDWR);
    }
    ::shutdown(listener_.get(), SHUT_RDWR);
    accepting_.join();
    for (auto& thread : threads_) thread.join();
    std::filesystem::remove_all(dir_);
  }

  // Processes that come from now on have an arena in which nothing is free.
  void give_full_arena() {
    std::lock_guard hold(mutex_);
    arena_ = base::Fd(::memfd_create("arena", MFD_CLOEXEC));
    if (::ftruncate(arena_.get(), kArenaBytes) != 0) arena_.reset();
  }
  const std::string& socket() const { return path_; }
  void kill_actor_process(const ActorId& actor, int signal) {
    std::lock_guard hold(mutex_);
    ::kill(pids_.at(actors_.at(actor).process), signal);
  }
  size_t objects() {
    std::lock_guard hold(mutex_);
    return objects_.size();
  }
  // Rings made so far.
  size_t links_made() {
    std::lock_guard hold(mutex_);
    return links_.size();
  }
  // Objects that somebody holds.
  size_t held() {
    std::lock_guard hold(mutex_);
    return static_cast<size_t>(
        std::ranges::count_if(objects_, [](const auto& entry) { return !entry.second.holders.empty(); }));
  }
  bool holds(const ObjectId& id) {
    std::lock_guard hold(mutex_);
    auto found = objects_.find(id);
    return found != objects_.end() && !found->second.holders.empty();
  }
  // Asks the minter, as a home does that has heard nothing of an object for which somebody waits.
  void want(const ObjectId& id) {
    std::lock_guard hold(mutex_);
    proto::ToWorker message;
    set_id(message.mutable_object_wanted()->mutable_object(), id);
    for (auto& [process, connection] : by_process_)
      if (base::short_id(process) == id.process) send(connection, 0, message);
  }
  bool knows(const ObjectId& id) {
    std::lock_guard hold(mutex_);
    auto found = objects_.find(id);
    return found != objects_.end() && found->second.known;
  }
  bool was_disowned(const ObjectId& id) {
    std::lock_guard hold(mutex_);
    return disowned_.contains(id);
  }
  // Some process has let go of its last handle of that actor / wants no news of it any more.
  bool was_dropped(const ActorId& actor) {
    std::lock_guard hold(mutex_);
    return actors_dropped_.contains(actor);
  }
  bool was_unwatched(const ActorId& actor) {
    std::lock_guard hold(mutex_);
    return actors_unwatched_.contains(actor);
  }
  // What waits for the head to know of handles is answered only by answer_marks().
  void hold_back_marks() {
    std::lock_guard hold(mutex_);
    holds_back_marks_ = true;
  }
  void answer_marks() {
    std::lock_guard hold(mutex_);
    holds_back_marks_ = false;
    proto::ToWorker done;
    done.mutable_done();
    for (auto& [connection, call_id] : std::exchange(marks_, {})) send(connection, call_id, done);
  }
  std::atomic<int> marks_asked{0};
  // Gives the process that came first a connection that came to the node for it, TLS to follow.
  void hand_over(int socket, const rpc::Nonce& nonce) {
    std::lock_guard hold(mutex_);
    proto::ToWorker message;
    message.mutable_accepted_peer()->set_tls(true);
    message.mutable_accepted_peer()->set_nonce(nonce.data(), nonce.size());
    send(connections_.front().get(), 0, message, {socket});
  }
  // Gives an actor's process such a connection, without TLS.
  void hand_over_to(const ActorId& actor, int socket) {
    std::lock_guard hold(mutex_);
    proto::ToWorker message;
    message.mutable_accepted_peer();
    send(by_process_.at(actors_.at(actor).process), 0, message, {socket});
  }
  std::atomic<int> lent{0};
  std::atomic<int> leases_granted{0};
  std::atomic<int> leases_returned{0};
  std::atomic<int> goodbyes{0};

 private:
  struct Connection {
    base::Fd socket;
    ProcessId process;
    std::vector<base::Fd> bell;
    std::optional<rpc::PeerDoorbell> doorbell;
    uint32_t next_bit = 0;
  };
  struct Actor {
    proto::ActorSpec spec;
    proto::ActorInfo info;
    ProcessId process;
    std::set<Connection*> watchers;
  };
  struct Link {
    ProcessId sides[2];
    uint32_t bits[2];  // bits[i]: of sides[1 - i] in the doorbell of sides[i]
    rpc::ClosedMark closed;
    base::Fd memory;
  };
  struct Object {
    proto::PublishObject value;
    bool known = false;
    std::set<Connection*> holders;
    std::vector<std::pair<Connection*, uint64_t>> waiting;
  };

  static base::Fd duplicate(int fd) { return base::Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

  void accept_all() {
    while (true) {
      base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::lock_guard hold(mutex_);
      if (!socket || ending_) return;
      connections_.push_back(std::make_unique<Connection>());
      Connection* connection = connections_.back().get();
      connection->socket = std::move(socket);
      threads_.emplace_back([this, connection] { serve(connection); });
    }
  }

  bool receive(int socket, uint64_t& call_id, proto::ToRaylet& message, std::vector<base::Fd>& fds) {
    rpc::FrameHeader header;
    if (!read_all(socket, &header, sizeof header, fds) || !rpc::check_header(header)) return false;
    std::string body(header.length, 0);
    if (!read_all(socket, body.data(), body.size(), fds)) return false;
    call_id = header.call_id;
    return message.ParseFromString(body);
  }
  static bool read_all(int socket, void* to, size_t size, std::vector<base::Fd>& fds) {
    auto* at = static_cast<char*>(to);
    while (size > 0) {
      iovec part{at, size};
      alignas(cmsghdr) char control[256];
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
      if (got <= 0) return false;
      for (cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head))
        for (size_t i = 0; i < (head->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
          int fd;
          std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
          fds.emplace_back(fd);
        }
      at += got;
      size -= static_cast<size_t>(got);
    }
    return true;
  }
  static void send(Connection* to, uint64_t call_id, const proto::ToWorker& message, const std::vector<int>& fds = {}) {
    rpc::FrameHeader header;
    header.call_id = call_id;
    header.sequence = fds.size();
    header.length = static_cast<uint32_t>(message.ByteSizeLong());
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    message.AppendToString(&bytes);
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[256] = {};
    msghdr out{};
    out.msg_iov = &part;
    out.msg_iovlen = 1;
    if (!fds.empty()) {
      out.msg_control = control;
      out.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&out);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
    }
    (void)::sendmsg(to->socket.get(), &out, MSG_NOSIGNAL);
  }

  void serve(Connection* connection) {
    uint64_t call_id = 0;
    while (true) {
      proto::ToRaylet message;
      std::vector<base::Fd> fds;
      if (!receive(connection->socket.get(), call_id, message, fds)) {
        ::shutdown(connection->socket.get(), SHUT_RDWR);
        return;
      }
      std::lock_guard hold(mutex_);
      if (ending_) return;
      handle(connection, call_id, message, fds);
    }
  }

  void handle(Connection* from, uint64_t call_id, proto::ToRaylet& message, std::vector<base::Fd>& fds) {
    using M = proto::ToRaylet;
    proto::ToWorker reply;
    switch (message.message_case()) {
      case M::kHello:
        return hello(from, call_id, message.hello(), fds);
      case M::kOfferPackage:
        reply.mutable_package_reply()->set_needed(false);
        break;
      case M::kCreateActor: {
        const auto id = id_of<ActorId>(message.create_actor().spec().actor());
        Actor& actor = actors_[id];
        actor.watchers.insert(from);  // who creates an actor watches it
        actor.spec = message.create_actor().spec();
        *actor.info.mutable_actor() = actor.spec.actor();
        actor.info.set_state(proto::STARTING);
        actor.info.set_class_name(actor.spec.class_name());
        actor.process = start_worker();
        *reply.mutable_actor_reply()->mutable_actor() = actor.info;
        break;
      }
      case M::kWatchActor: {
        Actor& actor = actors_[id_of<ActorId>(message.watch_actor().actor())];
        actor.watchers.insert(from);
        *reply.mutable_actor_reply()->mutable_actor() = actor.info;
        break;
      }
      case M::kUnwatchActor:
        return void(actors_unwatched_.insert(id_of<ActorId>(message.unwatch_actor().actor())));
      case M::kFindActor: {
        for (auto& [id, actor] : actors_)
          if (actor.spec.name() == message.find_actor().name())
            *reply.mutable_actor_reply()->mutable_actor() = actor.info;
        break;
      }
      case M::kKillActor: {
        killed_.insert(actors_[id_of<ActorId>(message.kill_actor().actor())].process);
        ::kill(pids_[actors_[id_of<ActorId>(message.kill_actor().actor())].process], SIGKILL);
        reply.mutable_done();
        break;
      }
      case M::kActorStarted:
        return started(from, message.actor_started());
      case M::kConnect:
        return connect(from, call_id, message.connect().peer());
      case M::kRequestLeases:
        return leases(from, message.request_leases());
      case M::kReturnLease: {
        ++leases_returned;
        std::erase_if(
            grants_, [&](const Grant& grant) { return grant.lease == id_of<LeaseId>(message.return_lease().lease()); });
        return grant_wishes();
      }
      case M::kLendCpu:
        if (!message.lend_cpu().take_back()) ++lent;
        reply.mutable_done();
        break;
      case M::kHoldRefs: {
        for (const auto& id : message.hold_refs().held()) objects_[id_of(id)].holders.insert(from);
        for (const auto& id : message.hold_refs().dropped()) objects_[id_of(id)].holders.erase(from);
        for (const auto& id : message.hold_refs().actors_dropped()) actors_dropped_.insert(id_of<ActorId>(id));
        if (message.hold_refs().confirm_actors()) {
          ++marks_asked;
          if (holds_back_marks_) return marks_.emplace_back(from, call_id), void();
        }
        reply.mutable_done();
        break;
      }
      case M::kCreateObject:
        reply.mutable_object_space()->mutable_failure()->set_text("the arena is full");
        break;
      case M::kPublishObject:
        return publish(from, message.publish_object());
      case M::kResolveObject: {
        Object& object = objects_[id_of(message.resolve_object().object())];
        if (!object.known) return object.waiting.emplace_back(from, call_id), void();
        return answer(from, call_id, object);
      }
      case M::kGoodbye:
        ++goodbyes;
        reply.mutable_done();
        break;
      case M::kListNodes:
        reply.mutable_nodes_reply()->add_nodes()->set_hostname("fake");
        break;
      default:
        return;
    }
    if (call_id != 0) send(from, call_id, reply);
  }

  void hello(Connection* from, uint64_t call_id, const proto::Hello& hello, std::vector<base::Fd>& fds) {
    from->process = id_of<ProcessId>(hello.process());
    by_process_[from->process] = from;
    if (fds.size() == 3) {
      from->bell = std::move(fds);
      auto mapped = rpc::PeerDoorbell::map(
          {duplicate(from->bell[0].get()), duplicate(from->bell[1].get()), duplicate(from->bell[2].get())});
      if (mapped.ok()) from->doorbell.emplace(std::move(*mapped));
    }
    proto::ToWorker message;
    auto& reply = *message.mutable_hello_reply();
    set_id(reply.mutable_node(), node_);
    set_id(reply.mutable_cluster(), ClusterId{1, 1});
    set_id(reply.mutable_job(), JobId{1, 1});
    reply.set_namespace_("test");
    reply.set_machine("machine");
    reply.set_data_secret(std::string(32, 's'));
    reply.set_idle_link_ms(idle_link_.count());
    std::vector<int> arena;
    if (arena_) {
      reply.set_arena_bytes(kArenaBytes);
      arena.push_back(arena_.get());
    }
    send(from, call_id, message, arena);
    for (auto& [id, actor] : actors_)
      if (actor.process == from->process) {
        proto::ToWorker host;
        *host.mutable_host_actor()->mutable_spec() = actor.spec;
        host.mutable_host_actor()->set_incarnation(1);
        send(from, 0, host);
      }
    for (auto& grant : grants_)
      if (grant.worker == from->process) {
        proto::ToWorker host;
        set_id(host.mutable_host_tasks()->mutable_lease(), grant.lease);
        send(from, 0, host);
        proto::ToWorker granted;
        granted.mutable_lease_granted()->set_shape(grant.shape);
        set_id(granted.mutable_lease_granted()->mutable_lease(), grant.lease);
        *granted.mutable_lease_granted()->mutable_worker() = address(from->process);
        ++leases_granted;
        send(grant.requester, 0, granted);
      }
  }

  proto::ProcessAddress address(const ProcessId& process) {
    proto::ProcessAddress out;
    set_id(out.mutable_node(), node_);
    set_id(out.mutable_process(), process);
    out.set_machine("machine");
    return out;
  }

  ProcessId start_worker() {
    const auto process = base::random_id<ProcessId>();
    std::vector<std::string> variables = {base::cat("RAYO_WORKER=", process.hex()),
                                          base::cat("RAYO_WORKER_SOCKET=", path_)};
    for (char** variable = environ; *variable; ++variable) variables.emplace_back(*variable);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    char program[] = "worker";
    char* arguments[] = {program, nullptr};
    pid_t pid = 0;
    ::posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments, environment.data());
    pids_[process] = pid;
    threads_.emplace_back([this, process, pid] {
      int status = 0;
      ::waitpid(pid, &status, 0);
      std::lock_guard hold(mutex_);
      gone(process, pid, status);
    });
    return process;
  }

  void started(Connection*, const proto::ActorStarted& told) {
    Actor& actor = actors_[id_of<ActorId>(told.actor())];
    if (told.has_failure()) {
      actor.info.set_state(proto::DEAD);
      *actor.info.mutable_failure() = told.failure();
      ::kill(pids_[actor.process], SIGKILL);
    } else {
      actor.info.set_state(proto::ALIVE);
      actor.info.set_incarnation(told.incarnation());
      *actor.info.mutable_address() = address(actor.process);
    }
    tell(actor);
  }
  void tell(Actor& actor) {
    proto::ToWorker push;
    *push.mutable_actor() = actor.info;
    for (Connection* watcher : actor.watchers) send(watcher, 0, push);
  }

  void connect(Connection* from, uint64_t call_id, const proto::ProcessAddress& peer) {
    const auto process = id_of<ProcessId>(peer.process());
    proto::ToWorker message;
    *message.mutable_peer_link()->mutable_peer() = peer;
    auto to = by_process_.find(process);
    for (const auto& link : links_)
      if (!link->closed.closed() && ((link->sides[0] == from->process && link->sides[1] == process) ||
                                     (link->sides[1] == from->process && link->sides[0] == process)))
        return send(from, call_id, message);
    auto pair = rpc::RingPair::create();
    if (to == by_process_.end() || !pair.ok()) {
      message.mutable_peer_link()->mutable_failure()->set_kind(proto::UNAVAILABLE);
      return send(from, call_id, message);
    }
    auto link = std::make_unique<Link>();
    link->sides[0] = from->process;
    link->sides[1] = process;
    link->bits[0] = from->next_bit++;
    link->bits[1] = to->second->next_bit++;
    link->closed = std::move(pair->closed_mark);
    link->memory = std::move(pair->fd);
    send_link(*link, 1, 0);
    send_link(*link, 0, call_id);
    links_.push_back(std::move(link));
  }
  void send_link(const Link& link, int side, uint64_t call_id) {
    Connection* other = by_process_[link.sides[1 - side]];
    proto::ToWorker message;
    auto& out = *message.mutable_peer_link();
    *out.mutable_peer() = address(other->process);
    out.set_ring(true);
    out.set_first(side == 0);
    out.set_my_bit(link.bits[1 - side]);
    out.set_peer_bit(link.bits[side]);
    send(by_process_[link.sides[side]], call_id, message,
         {link.memory.get(), other->bell[0].get(), other->bell[1].get(), other->bell[2].get()});
  }

  struct Grant {
    LeaseId lease;
    uint64_t shape;
    ProcessId worker;
    Connection* requester;
  };
  // What is not granted at once stays wished for, as with a raylet: there are two workers for each requester.
  void leases(Connection* from, const proto::RequestLeases& request) {
    wishes_[{from, request.shape()}] = request.count();
    grant_wishes();
  }
  void grant_wishes() {
    for (auto& [whose, count] : wishes_) {
      auto [requester, shape] = whose;
      auto have = std::ranges::count(grants_, requester, &Grant::requester);
      for (; have < 2 && count > 0; ++have, --count)
        grants_.push_back({base::random_id<LeaseId>(), shape, start_worker(), requester});
    }
  }

  void publish(Connection* from, const proto::PublishObject& value) {
    if (value.gone()) return disowned_.insert(id_of(value.object())), void();
    Object& object = objects_[id_of(value.object())];
    object.holders.insert(from);
    if (value.pending()) return;
    object.known = true;
    object.value = value;
    for (auto& [connection, call_id] : std::exchange(object.waiting, {})) answer(connection, call_id, object);
  }
  static void answer(Connection* to, uint64_t call_id, const Object& object) {
    proto::ToWorker message;
    if (object.value.has_failure()) *message.mutable_object_value()->mutable_failure() = object.value.failure();
    message.mutable_object_value()->set_value(object.value.value());
    message.mutable_object_value()->set_ready(true);
    send(to, call_id, message);
  }

  void gone(const ProcessId& process, pid_t pid, int status) {
    pids_.erase(process);
    if (ending_) return;
    std::erase_if(grants_, [&](const Grant& grant) { return grant.worker == process; });
    std::erase_if(wishes_, [&](const auto& wish) { return wish.first.first->process == process; });
    grant_wishes();
    proto::DeathRecord death;
    death.set_pid(pid);
    death.set_kind(WIFSIGNALED(status) ? proto::SIGNAL : proto::EXIT);
    if (killed_.count(process)) death.set_kind(proto::KILLED);
    if (WIFSIGNALED(status))
      death.set_signal(WTERMSIG(status));
    else
      death.set_exit_code(WEXITSTATUS(status));
    for (auto& link : links_)
      for (int side : {0, 1}) {
        if (link->sides[side] != process || link->closed.closed()) continue;
        link->closed.close();
        Connection* other = by_process_[link->sides[1 - side]];
        if (other->doorbell) other->doorbell->ring(link->bits[1 - side], true);
        proto::ToWorker message;
        set_id(message.mutable_peer_gone()->mutable_process(), process);
        *message.mutable_peer_gone()->mutable_death() = death;
        send(other, 0, message);
      }
    for (auto& [id, actor] : actors_)
      if (actor.process == process && actor.info.state() != proto::DEAD) {
        actor.info.set_state(proto::DEAD);
        *actor.info.mutable_death() = death;
        tell(actor);
      }
  }

  static constexpr int64_t kArenaBytes = 1 << 20;
  const std::chrono::milliseconds idle_link_;
  base::Fd arena_;
  const NodeId node_ = base::random_id<NodeId>();
  std::string dir_;
  std::string path_;
  base::Fd listener_;
  std::mutex mutex_;
  bool ending_ = false;
  std::thread accepting_;
  std::deque<std::thread> threads_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<ProcessId, Connection*> by_process_;
  std::map<ActorId, Actor> actors_;
  std::map<ProcessId, pid_t> pids_;
  std::set<ProcessId> killed_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Grant> grants_;
  std::map<std::pair<Connection*, uint64_t>, int> wishes_;  // by requester and shape: leases not granted yet
  std::map<ObjectId, Object> objects_;
  std::set<ObjectId> disowned_;
  std::set<ActorId> actors_dropped_;
  std::set<ActorId> actors_unwatched_;
  bool holds_back_marks_ = false;
  std::vector<std::pair<Connection*, uint64_t>> marks_;
};

}  // namespace rayo::worker
