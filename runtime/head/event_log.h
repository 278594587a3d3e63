// The last events of the cluster for `status`, bounded by number and bytes. Loop thread.
#pragma once

#include <deque>
#include <string>

#include "runtime/head/timeouts.h"
#include "runtime/proto/head.pb.h"

namespace rayo::head {

class EventLog {
 public:
  // `severity`: info, warning, error.
  void add(int64_t at_unix_us, const char* severity, std::string text) {
    proto::Event event;
    event.set_at_unix_us(at_unix_us);
    event.set_severity(severity);
    event.set_text(std::move(text));
    bytes_ += event.ByteSizeLong();
    events_.push_back(std::move(event));
    while (events_.size() > kEvents || bytes_ > kEventBytes) {
      bytes_ -= events_.front().ByteSizeLong();
      events_.pop_front();
    }
  }
  const std::deque<proto::Event>& events() const { return events_; }  // oldest first

 private:
  std::deque<proto::Event> events_;
  size_t bytes_ = 0;
};

}  // namespace rayo::head
