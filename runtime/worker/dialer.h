// Connects to processes of other nodes. All connections under way are one thread's, since a name may have to be looked up
// and a SYN may wait for seconds; they wait side by side. A name that is looked up holds up those behind it: nodes
// publish numbers, unless `--advertise` names one.
//
//   Dialer dialer(engine);
//   dialer.dial("10.0.0.5:6380", rpc::encode(header), [](base::StatusOr<base::Fd> socket) { ... });
//
// dial under the baton, and so is `done` called; end from any thread. The thread starts with the first connection and
// ends with end().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/rpc/data_header.h"
#include "runtime/worker/engine.h"

namespace rayo::worker {

class Dialer {
 public:
  using Done = std::function<void(base::StatusOr<base::Fd> socket)>;
  explicit Dialer(Engine& engine);
  ~Dialer();
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  // `first` is sent as soon as the connection stands. Never calls `done` before it returns.
  void dial(std::string host_port, const rpc::DataHeaderBytes& first, Done done);
  // What is under way is given up: its `done` is never called.
  void end();

 private:
  struct Attempt;
  struct Answer;
  using Attempts = std::vector<std::unique_ptr<Attempt>>;

  base::Status start();
  void run();
  void begin(Attempt& attempt);
  void try_next(Attempt& attempt);
  void look_at(Attempt& attempt, bool writable);
  void answer(Attempt& attempt, base::StatusOr<base::Fd> socket);
  void wait(Attempts& under_way);

  Engine& engine_;
  base::Fd wake_;  // eventfd: `asked_` or `ending_` has changed
  std::thread thread_;
  std::mutex mutex_;
  Attempts asked_;       // under the mutex
  bool ending_ = false;  // under the mutex
  // Answers that the engine has not run yet look here first: they may outlive this.
  const std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace rayo::worker
