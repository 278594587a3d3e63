// Large objects from node to node: arena to arena over TCP, on named threads, so that the raylet's loop never
// waits for bytes.
//
// A pull dials the holder's one port (LinkKind::kData), sends one kPull frame and reads the object into its
// extent; between machines all of it inside TLS. One connection serves one object. A peer that stands still
// for kStall ends the transfer.
//
//   transfer.pull({.object = id, .holder = "10.0.0.5:6380", ...}, [](std::optional<proto::Failure> failure) { ... });
//   transfer.serve(std::move(fd), header);
//
// Loop thread; callbacks come on it. The source of extents is asked on the loop thread too.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <rayo/id.h>

#include "runtime/base/fd.h"
#include "runtime/base/loop/loop.h"
#include "runtime/base/status.h"
#include "runtime/proto/common.pb.h"
#include "runtime/rpc/data_header.h"

namespace rayo::raylet {

// An extent being sent: the object stays in the arena until the last reference to this goes.
struct Outgoing {
  int64_t offset = 0;
  int64_t size_bytes = 0;
  std::shared_ptr<const void> pin;
};

class Transfer {
 public:
  // No byte for so long: the peer is gone or stopped.
  static constexpr base::Duration kStall = std::chrono::seconds(10);

  struct Pull {
    ObjectId object;
    std::string holder;  // HOST:PORT
    bool tls = true;     // false where the holder is on this machine
    int64_t offset = 0;
    int64_t size_bytes = 0;
  };
  using Done = std::function<void(std::optional<proto::Failure>)>;
  using Find = std::function<std::optional<Outgoing>(const ObjectId&)>;

  Transfer(base::Loop& loop, const rpc::Secret& data_secret);
  ~Transfer();  // waits for the transfers under way: each ends within kStall of its last byte
  // Ends its fibers, which call into other parts, while those are there. In a fiber.
  void end_fibers();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Once, before the first transfer: where the bytes lie, and then what is sealed. The descriptor stays the caller's.
  base::Status use_arena(int arena_fd, int64_t arena_bytes);
  void find_with(Find find);

  void pull(const Pull& pull, Done done);
  // A connection whose verified header says kData.
  void serve(base::Fd fd, const rpc::DataHeader& header);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rayo::raylet
