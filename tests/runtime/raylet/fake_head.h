// A head for tests of the raylet: joins, registers, starts each actor that is created on the node that asked,
// and remembers what it was told. Runs on the test's loop.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/loop/event.h"
#include "runtime/base/version.h"
#include "runtime/rpc/grpc/port.h"
#include "runtime/rpc/grpc/server.h"
#include "runtime/rpc/join.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {

class FakeHead {
 public:
  explicit FakeHead(base::Loop& loop) : loop_(loop) { creations.set(), marks.set(), unwatches.set(); }
  ~FakeHead() { close(); }

  base::Status start() {
    cluster = base::random_id<ClusterId>();
    auto wall = base::system_clock().wall();
    RAYO_ASSIGN_OR_RETURN(desk_.authority, rpc::make_authority(cluster, wall));
    RAYO_ASSIGN_OR_RETURN(auto fingerprint, rpc::fingerprint_of(desk_.authority.certificate_pem));
    token = rpc::Token::make(fingerprint);
    desk_.token_secret = token.secret;
    desk_.cluster = cluster;
    desk_.cluster_name = "test";
    desk_.version = std::string(base::kVersion);
    desk_.data_secret = token.data_secret();
    RAYO_ASSIGN_OR_RETURN(auto identity, rpc::issue_identity(desk_.authority, {rpc::Role::kHead, cluster, {}}, wall));
    add_methods();
    server_ =
        std::make_unique<rpc::Server>(loop_, service_, rpc::ServerOptions{.identity = identity, .cluster = cluster});
    RAYO_RETURN_IF_ERROR(server_->start());
    RAYO_ASSIGN_OR_RETURN(port_, rpc::Port::open(loop_, {.host = "127.0.0.1"}));
    port_->serve({.tls = [this](base::Fd fd) { server_->accept_tls(std::move(fd)); },
                  .data = [this](base::Fd fd, rpc::DataHeaderBytes bytes) { join(std::move(fd), bytes); }});
    return absl::OkStatus();
  }
  void close() {
    if (!server_) return;
    port_->close();
    down_.close();
    server_->shutdown(loop_.deadline(std::chrono::seconds(1)));
    server_.reset();
    for (auto& thread : joining_) thread.join();
  }

  std::string address() const { return port_->address(); }
  // As if that node had joined.
  base::StatusOr<rpc::TlsIdentity> identity_of(const NodeId& node) const {
    return rpc::issue_identity(desk_.authority, {rpc::Role::kNode, cluster, rpc::member_id(node)},
                               base::system_clock().wall());
  }
  void send(proto::NodeDown message) { down_.push(std::move(message)); }
  void bury(ActorId actor) { buried_.insert(actor); }  // dead by the time that its creation is answered
  // The first message up that fits, at most 10 s from now; what fits is taken out.
  template <class Fits>
  std::optional<proto::NodeUp> await(Fits fits) {
    base::TimePoint deadline = loop_.deadline(std::chrono::seconds(10));
    while (true) {
      for (auto at = up.begin(); at != up.end(); ++at) {
        if (!fits(*at)) continue;
        proto::NodeUp found = *at;
        up.erase(at);
        return found;
      }
      if (!news_.wait(deadline)) return std::nullopt;
    }
  }

  bool watches(ActorId actor) const { return watched_.contains(actor); }
  // That node has asked so often to watch it, at most 10 s from now.
  bool await_watches(ActorId actor, int times) {
    base::TimePoint deadline = loop_.deadline(std::chrono::seconds(10));
    while (asked_to_watch_[actor] < times)
      if (!news_.wait(deadline)) return false;
    return true;
  }

  // It has asked so often where to run that, at most 10 s from now.
  bool await_questions(const std::string& what, size_t times) {
    base::TimePoint deadline = loop_.deadline(std::chrono::seconds(10));
    while (asked(what) < times)
      if (!news_.wait(deadline)) return false;
    return true;
  }
  size_t asked(const std::string& what) const {
    size_t times = 0;
    for (const auto& question : questions) times += question.what() == what;
    return times;
  }

  // The node has heard what this head says of itself now: it sends the next beat when it has read the answer.
  bool await_beats() {
    base::TimePoint deadline = loop_.deadline(std::chrono::seconds(10));
    for (const uint64_t heard = last_beat_ + 2; last_beat_ < heard;)
      if (!news_.wait(deadline)) return false;
    return true;
  }

  ClusterId cluster;
  rpc::Token token;
  std::deque<proto::NodeUp> up;
  proto::Register registered;
  base::Event creations;  // answered once it is set
  bool refuse = false;    // all of them
  bool read_only = false;
  bool started = false;  // the last one had begun already
  std::set<ActorId> unwatched;
  base::Event marks;      // behind handles: sent back once it is set
  base::Event unwatches;  // heard once it is set
  bool forget = false;    // the node, once: it opens its stream again
  std::vector<proto::PlaceLeasesRequest> questions;
  std::map<std::string, std::string> config;

 private:
  void join(base::Fd fd, const rpc::DataHeaderBytes& bytes) {
    auto header = rpc::parse_data_header(bytes);
    if (!header) return;
    joining_.emplace_back([this, fd = std::make_shared<base::Fd>(std::move(fd)), header = *header] {
      (void)rpc::serve_join(std::move(*fd), header, desk_);
    });
  }

  void add_methods() {
    service_.on(rpc::head::kAttach, [this](rpc::MessageStream<proto::NodeUp, proto::NodeDown>& stream, rpc::Call&) {
      return attach(stream);
    });
    service_.on(rpc::head::kBeat,
                [this](rpc::MessageStream<proto::BeatRequest, proto::BeatReply>& stream, rpc::Call&) -> base::Status {
                  while (true) {
                    RAYO_ASSIGN_OR_RETURN(auto request, stream.read());
                    if (!request) return absl::OkStatus();
                    proto::BeatReply reply;
                    reply.set_known(!std::exchange(forget, false));
                    reply.set_number(request->number());
                    reply.set_read_only(read_only);
                    if (request->number() > last_beat_) last_beat_ = request->number(), news_.notify_all();
                    RAYO_RETURN_IF_ERROR(stream.write(reply));
                  }
                });
    service_.on(rpc::head::kRelay, [this](const proto::RelayRequest& request, rpc::Call&) {
      return base::StatusOr<proto::RelayReply>(relay(request));
    });
    service_.on(rpc::head::kPlaceLeases, [this](const proto::PlaceLeasesRequest& request, rpc::Call& call) {
      place(request, call);
      return base::StatusOr<proto::PlaceLeasesReply>(proto::PlaceLeasesReply());
    });
  }

  base::Status attach(rpc::MessageStream<proto::NodeUp, proto::NodeDown>& stream) {
    RAYO_ASSIGN_OR_RETURN(auto first, stream.read());
    if (!first) return absl::OkStatus();
    registered = first->register_();
    proto::NodeDown down;
    rpc::to_proto(cluster, down.mutable_registered()->mutable_cluster());
    down.mutable_registered()->set_epoch(1);
    down.mutable_registered()->mutable_config()->insert(config.begin(), config.end());
    *down.mutable_registered()->add_nodes() = registered.node();
    RAYO_RETURN_IF_ERROR(stream.write(down));
    base::TaskGroup writer;
    writer.spawn("down", [&] {
      while (auto message = down_.pop())
        if (!stream.write(*message).ok()) return;
    });
    while (true) {
      auto message = stream.read();
      if (!message.ok() || !*message) return absl::OkStatus();
      if ((*message)->has_actor()) learn((*message)->actor());
      const bool of_handles = (*message)->has_actor_handles() || (*message)->has_still_here();
      const uint64_t mark = of_handles ? (*message)->request() : 0;
      up.push_back(std::move(**message));
      news_.notify_all();
      if (mark != 0) answer_mark(mark);
    }
  }

  // Nothing else to place it on: it waits. Of two questions for the same the earlier one is answered with nothing.
  void place(const proto::PlaceLeasesRequest& request, rpc::Call& call) {
    questions.push_back(request);
    news_.notify_all();
    auto& last = asking_[request.what()];
    if (last) last->set();
    const auto mine = last = std::make_shared<base::Event>();
    while (!mine->is_set() && !call.gone().is_set() && !base::fiber_cancelled())
      mine->wait(loop_.deadline(std::chrono::milliseconds(20)));
  }

  void answer_mark(uint64_t number) {
    if (!marks.is_set()) marks.wait();
    proto::NodeDown down;
    down.set_request(number);
    send(down);
  }

  void learn(const proto::ActorInfo& info) {
    auto actor = rpc::from_proto<ActorId>(info.actor());
    actors_[actor] = info;
    if (!watched_.count(actor)) return;
    proto::NodeDown down;
    *down.mutable_actor() = info;
    send(down);
  }

  proto::RelayReply relay(const proto::RelayRequest& request) {
    proto::RelayReply reply;
    if (request.has_create_actor()) {
      auto actor = rpc::from_proto<ActorId>(request.create_actor().spec().actor());
      watched_.insert(actor);
      proto::ActorInfo& info = actors_[actor];
      *info.mutable_actor() = request.create_actor().spec().actor();
      info.set_state(proto::STARTING);
      info.set_incarnation(1);
      started = request.started();
      if (!creations.is_set()) creations.wait();
      if (buried_.contains(actor)) info.set_state(proto::DEAD);
      *reply.mutable_actor() = info;
      if (refuse) {
        reply.clear_actor();
        reply.mutable_failure()->set_kind(proto::INVALID);
        reply.mutable_failure()->set_text("refused");
        return reply;
      }
      if (request.started()) return reply;
      proto::NodeDown down;
      *down.mutable_start_actor()->mutable_spec() = request.create_actor().spec();
      *down.mutable_start_actor()->mutable_spec()->mutable_job() = request.job();
      down.mutable_start_actor()->set_incarnation(1);
      rpc::to_proto(base::random_id<LeaseId>(), down.mutable_start_actor()->mutable_lease());
      send(down);
    } else if (request.has_watch_actor()) {
      auto actor = rpc::from_proto<ActorId>(request.watch_actor().actor());
      watched_.insert(actor);
      ++asked_to_watch_[actor];
      news_.notify_all();
      *reply.mutable_actor() = actors_[actor];
    } else if (request.has_unwatch_actor()) {
      if (!unwatches.is_set()) unwatches.wait();
      const auto actor = rpc::from_proto<ActorId>(request.unwatch_actor().actor());
      watched_.erase(actor);
      unwatched.insert(actor);
    } else if (request.has_kill_actor()) {
      proto::NodeDown down;
      *down.mutable_end_actor()->mutable_actor() = request.kill_actor().actor();
      down.mutable_end_actor()->set_incarnation(1);
      down.mutable_end_actor()->mutable_why()->set_kind(proto::KILLED);
      send(down);
    }
    return reply;
  }

  base::Loop& loop_;
  rpc::JoinDesk desk_;
  rpc::Service service_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<rpc::Port> port_;
  std::vector<std::thread> joining_;
  base::Queue<proto::NodeDown> down_;
  base::WaitList news_;
  std::map<ActorId, proto::ActorInfo> actors_;
  std::set<ActorId> watched_;
  std::map<ActorId, int> asked_to_watch_;
  std::set<ActorId> buried_;
  std::map<std::string, std::shared_ptr<base::Event>> asking_;
  uint64_t last_beat_ = 0;
};

}  // namespace rayo::raylet
