// The key-value table of programs: by namespace and key, as committed. Decides; no I/O.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/head/control_store.h"
#include "runtime/proto/worker.pb.h"

namespace rayo::head {

class KeyValueTable {
 public:
  // GET and LIST are answered at once. PUT and DELETE fill `write` where something is to change: write it, then apply()
  // it. A PUT that finds the key and may not overwrite answers found = true and changes nothing.
  proto::KeyValueReply answer(const proto::KeyValue& request, Batch& write) const;
  void apply(const proto::KeyValue& request);
  void restore(const std::string& key, std::string value) { values_[key] = std::move(value); }

 private:
  std::map<std::string, std::string> values_;  // NAMESPACE 0x00 KEY
};

}  // namespace rayo::head
