// The key-value table of programs: by namespace and key, as committed. Decides; no I/O.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/head/control_store.h"
#include "runtime/head/timeouts.h"
#include "runtime/proto/worker.pb.h"

namespace rayo::head {

// Where a job's own values stand (ToRaylet.key_value.namespace); they end with it.
inline std::string job_namespace(const JobId& job) { return "job:" + job.hex(); }

class KeyValueTable {
 public:
  explicit KeyValueTable(size_t most_of_space = kKeyValueSpaceBytes, size_t most = kKeyValueAllBytes)
      : most_of_space_(most_of_space), most_(most) {}
  // GET and LIST are answered at once. PUT and DELETE fill `write` where something is to change: write it, then apply()
  // it. A PUT that finds the key and may not overwrite answers found = true and changes nothing.
  proto::KeyValueReply answer(const proto::KeyValue& request, Batch& write) const;
  void apply(const proto::KeyValue& request);
  // Forgets what stands under a namespace whose owner has ended.
  void end_namespace(const std::string& name_space, Batch& write);
  void restore(const std::string& key, std::string value);

 private:
  proto::Failure refusal(const proto::KeyValue& put, size_t replaced_bytes) const;
  void erase(std::map<std::string, std::string>::iterator at);

  std::map<std::string, std::string> values_;  // NAMESPACE 0x00 KEY
  std::map<std::string, size_t> bytes_;        // by namespace, of keys and values
  size_t all_bytes_ = 0;
  size_t most_of_space_;
  size_t most_;
};

}  // namespace rayo::head
