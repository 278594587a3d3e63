// Prints what workers wrote on the driver's own stdout and stderr: "(Counter pid=4711, node=alpha) text", what several
// say alike once (line_folder.h). On a thread
// of its own, since a terminal may be slow and the baton is held where the lines arrive. At most kPending bytes wait;
// more is dropped and said.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/proto/worker.pb.h"
#include "runtime/worker/line_folder.h"

namespace rayo::worker {

class LogPrinter {
 public:
  LogPrinter() = default;
  ~LogPrinter() { end(); }

  // Prints what waits; what comes later is dropped.
  void end();

  void print(const proto::LogLines& lines);
  void print(const proto::Notice& notice);

 private:
  static constexpr size_t kPending = 4u << 20;

  // Under the mutex.
  void add(bool error, const std::string& text);
  void add_folded(base::TimePoint now);
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  LineFolder folder_;
  std::string pending_[2];  // stdout, stderr
  int64_t dropped_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace rayo::worker
