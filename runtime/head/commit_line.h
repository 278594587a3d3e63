// The one line through which everything goes that the head does: an outcome's rows are written first, then its messages
// sent, in the order in which the outcomes were decided. What gathers while a commit runs goes with the next one (group
// commit).
//
//   line.submit(outcome);                                   // facts (a node died): told even where the disk refuses
//   RAYO_RETURN_IF_ERROR(line.commit(std::move(outcome)));  // promises (a name): nothing is told unless it is written
//
// What follows from a promise that was kept (a new actor is placed) may be decided at the moment when it is written,
// and is told then, rows of its own apart: else it would wait for the next commit, which begins at once.
//
// A disk that cannot be written makes the head read_only: promises are refused with the store's error, facts are kept
// (the last value of each row) and written as soon as the disk takes them; it is tried every kStoreRetry. Loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "runtime/base/loop/blocking.h"
#include "runtime/base/loop/event.h"
#include "runtime/head/control_store.h"
#include "runtime/head/outcome.h"

namespace rayo::head {

class CommitLine {
 public:
  // `deliver` gets each outcome once its rows are written; it must not wait.
  CommitLine(ControlStore& store, std::function<void(Outcome&)> deliver);

  void submit(Outcome outcome);
  using Then = std::function<void(Outcome&)>;
  // In a fiber. `then` outlives the fiber where that is cancelled.
  base::Status commit(Outcome outcome, Then then = nullptr);
  // Waits until what was submitted before is written.
  base::Status barrier() { return commit({}); }
  // Not OK while changes are refused.
  const base::Status& refusal() const { return refusal_; }

  // The fiber; returns when cancelled, after a last try to write what is left.
  void run();

 private:
  using Done = base::OneShot<base::Status>;
  struct Entry {
    Outcome outcome;
    std::shared_ptr<Done> done;  // null: a fact
    Then then;
  };
  void follow(const Then& then);
  void write_all(std::optional<Entry> first);
  void write(std::vector<Entry> entries);
  void keep(const Batch& batch);
  base::Status apply(const std::vector<Entry>& entries);
  void deliver(Entry& entry, const base::Status& written);

  ControlStore& store_;
  std::function<void(Outcome&)> deliver_;
  base::WorkThreads writer_{"control-log", 1};
  base::Queue<Entry> queue_;
  bool writing_ = false;
  base::Status refusal_;
  std::map<std::pair<std::string, std::string>, std::optional<std::string>> unwritten_;
};

}  // namespace rayo::head
