// The control log: what the head promised to remember. A small interface, so that SQLite, etcd and a fault-injecting
// fake are the same to the head (tests/runtime/head/control_store_test.cc is the conformance test of all of them).
//
//   Batch batch;
//   batch.put("actors", id.hex(), row);
//   batch.put("names", key, id.hex());
//   Status durable = store.apply(batch);     // all of it or nothing; survives kill -9 once it returned OK
//
// Used by one thread at a time (CommitLine's writer). Errors of apply: ResourceExhausted (no room; reads go on, later
// writes work again once there is room), Unavailable (the disk failed), FailedPrecondition (the file is no longer where
// it was).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace rayo::head {

struct Write {
  std::string table;
  std::string key;
  std::optional<std::string> value;  // nullopt: the row goes
  friend bool operator==(const Write&, const Write&) = default;
};

class Batch {
 public:
  void put(std::string table, std::string key, std::string value) {
    writes_.push_back({std::move(table), std::move(key), std::move(value)});
  }
  void erase(std::string table, std::string key) {
    writes_.push_back({std::move(table), std::move(key), std::nullopt});
  }
  void append(Batch&& other) {
    writes_.insert(writes_.end(), std::make_move_iterator(other.writes_.begin()),
                   std::make_move_iterator(other.writes_.end()));
    other.writes_.clear();
  }
  bool empty() const { return writes_.empty(); }
  const std::vector<Write>& writes() const { return writes_; }

 private:
  std::vector<Write> writes_;
};

struct Row {
  std::string table;
  std::string key;
  std::string value;
  friend auto operator<=>(const Row&, const Row&) = default;
};

class ControlStore {
 public:
  virtual ~ControlStore() = default;
  // In order, as one transaction. Blocks until it is durable.
  virtual base::Status apply(const Batch& batch) = 0;
  // Every row, sorted by table and key.
  virtual base::StatusOr<std::vector<Row>> load_all() = 0;
  // From now on called with each batch once it is durable, in the order of commits, on the thread that applied it.
  virtual void watch(std::function<void(const Batch&)> watcher) = 0;
};

}  // namespace rayo::head
