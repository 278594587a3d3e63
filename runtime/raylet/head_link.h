// This node's link to the head: one stream each way that is opened again for 24 hours where it breaks, the
// beats from a thread of their own, and calls that only the head can answer. Without a head everything local
// goes on.
//
//   HeadLink head(loop, dial, me);
//   RAYO_ASSIGN_OR_RETURN(auto registered, head.attach(deadline));   // first time: an error ends the start
//   head.run();                                                      // from now on by itself
//   head.send(up);                                                   // in order; the last of it is kept while the head is away
//
// Loop thread only, but for the beat thread that it owns. What the head sends goes to the handlers, in order,
// in a fiber.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <rayo/id.h>

#include "runtime/base/loop/event.h"
#include "runtime/base/status.h"
#include "runtime/proto/head.pb.h"
#include "runtime/raylet/head_outbox.h"
#include "runtime/rpc/grpc/client.h"

namespace rayo::raylet {

struct NodeLife {
  NodeId id;
  uint64_t incarnation = 0;  // grows with each start of a raylet: its wall clock in microseconds
};

class HeadLink {
 public:
  struct Handlers {
    std::function<proto::Register()> make_register;
    std::function<void(const proto::Registered&)> registered;  // each time
    std::function<void(proto::NodeDown)> message;              // must not wait
    std::function<void(const std::string& reason)> ended;      // replaced, refused, or 24 h without a head
  };

  HeadLink(base::Loop& loop, rpc::TlsDial dial, NodeLife me);
  ~HeadLink();
  void set_handlers(Handlers handlers) { handlers_ = std::move(handlers); }

  // Opens the stream and registers; the failure that the head gives is the error.
  base::StatusOr<proto::Registered> attach(base::TimePoint deadline);
  // Spawns the fibers and the beat thread. After attach().
  void run();
  // Says Leave and closes, in a fiber.
  void leave(const std::string& reason, base::TimePoint deadline);

  void send(proto::NodeUp message);
  // Where the head is away these try again, until it has been away for head.patience (runtime/base/config.h): from then
  // on they fail at once with Unavailable, until it is back.
  base::StatusOr<proto::RelayReply> relay(const proto::RelayRequest& request, base::TimePoint deadline);
  base::StatusOr<proto::PlaceLeasesReply> place_leases(const proto::PlaceLeasesRequest& request,
                                                       base::TimePoint deadline);
  rpc::Channel& channel() { return *channel_; }

  bool attached() const { return stream_ != nullptr; }
  // By its last beat: what it is asked to write down may be refused.
  bool read_only() const { return read_only_; }
  // The head has been away for longer than its patience.
  bool given_up() const { return loop_.now() >= away_until_; }
  // Of the last acknowledged beat or stream message.
  base::WallTime last_seen() const { return base::WallTime(base::Duration(last_seen_.load())); }

 private:
  using Stream = rpc::ClientStream<proto::NodeUp, proto::NodeDown>;

  template <class Request, class Reply>
  base::StatusOr<Reply> ask(const rpc::UnaryMethod<Request, Reply>& method, const Request& request,
                            base::TimePoint deadline);
  base::Status gone(std::string_view cause) const;
  void serve();
  void keep_attached();
  // Of the beat thread.
  void beat();
  base::Status beat_on_one_stream();
  void heard(const proto::BeatReply& reply);
  void saw_head();

  base::Loop& loop_;
  NodeLife me_;
  std::string addresses_;
  base::Duration patience_{};
  base::TimePoint away_until_ = base::kForever;  // when the head is given up; kForever while it is there
  Handlers handlers_;
  std::unique_ptr<rpc::Channel> channel_;
  std::unique_ptr<Stream> stream_;
  HeadOutbox outgoing_;
  std::optional<proto::NodeUp> last_report_;  // while the head is away
  std::atomic<int64_t> last_seen_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> read_only_{false};
  base::Loop beat_loop_;
  std::thread beats_;
  std::unique_ptr<base::TaskGroup> tasks_ = std::make_unique<base::TaskGroup>();
};

// The error that a proto::Failure stands for, and the other way.
base::Status status_of(const proto::Failure& failure);
proto::Failure failure_of(const base::Status& status);

}  // namespace rayo::raylet
