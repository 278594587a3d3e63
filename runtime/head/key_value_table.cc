#include "runtime/head/key_value_table.h"

#include "runtime/base/text.h"
#include "runtime/base/units.h"
#include "runtime/head/records.h"

namespace rayo::head {

namespace {
std::string full_key(const proto::KeyValue& request) { return request.namespace_() + '\0' + request.key(); }
std::string space_of(const std::string& key) { return key.substr(0, key.find('\0')); }
std::string size_text(size_t bytes) { return base::format_size(static_cast<int64_t>(bytes)); }
}  // namespace

proto::KeyValueReply KeyValueTable::answer(const proto::KeyValue& request, Batch& write) const {
  proto::KeyValueReply reply;
  auto key = full_key(request);
  auto found = values_.find(key);
  reply.set_found(found != values_.end());
  switch (request.op()) {
    case proto::KeyValue::GET:
      if (reply.found()) reply.set_value(found->second);
      break;
    case proto::KeyValue::LIST: {
      size_t skip = request.namespace_().size() + 1;
      for (auto at = values_.lower_bound(key); at != values_.end() && at->first.starts_with(key); ++at) {
        reply.add_keys(at->first.substr(skip));
      }
      reply.set_found(!reply.keys().empty());
      break;
    }
    case proto::KeyValue::PUT:
      if (reply.found() && !request.overwrite()) break;
      if (auto refused = refusal(request, reply.found() ? key.size() + found->second.size() : 0);
          refused.kind() != proto::FAILURE_UNSPECIFIED) {
        *reply.mutable_failure() = std::move(refused);
      } else {
        write.put("key_value", key, request.value());
      }
      break;
    case proto::KeyValue::DELETE:
      if (reply.found()) write.erase("key_value", key);
      break;
    default:
      *reply.mutable_failure() = failure(proto::INVALID, "an operation that this head does not know");
  }
  return reply;
}

proto::Failure KeyValueTable::refusal(const proto::KeyValue& put, size_t replaced_bytes) const {
  if (put.value().size() > kKeyValueBytes) {
    return failure(
        proto::INVALID,
        base::cat("a value of ", size_text(put.value().size()), " is over the limit of ", size_text(kKeyValueBytes)),
        "rayo::put holds large values; store its reference");
  }
  const std::string key = full_key(put);
  const size_t more = key.size() + put.value().size();
  auto known = bytes_.find(space_of(key));
  const size_t there = known == bytes_.end() ? 0 : known->second;
  if (there + more - replaced_bytes > most_of_space_) {
    return failure(proto::INVALID,
                   base::cat("the values of one namespace are ", size_text(there), " already, and ",
                             size_text(most_of_space_), " are the limit"),
                   "delete what is not needed any more; rayo::put holds large values");
  }
  if (all_bytes_ + more - replaced_bytes > most_) {
    return failure(proto::INVALID,
                   base::cat("all values of the cluster are ", size_text(all_bytes_), " already, and ",
                             size_text(most_), " are the limit"),
                   "delete what is not needed any more, in other namespaces too");
  }
  return {};
}

void KeyValueTable::restore(const std::string& key, std::string value) {
  if (auto old = values_.find(key); old != values_.end()) erase(old);
  bytes_[space_of(key)] += key.size() + value.size();
  all_bytes_ += key.size() + value.size();
  values_.emplace(key, std::move(value));
}

void KeyValueTable::erase(std::map<std::string, std::string>::iterator at) {
  const size_t bytes = at->first.size() + at->second.size();
  all_bytes_ -= bytes;
  auto space = bytes_.find(space_of(at->first));
  if ((space->second -= bytes) == 0) bytes_.erase(space);
  values_.erase(at);
}

void KeyValueTable::end_namespace(const std::string& name_space, Batch& write) {
  const std::string prefix = name_space + '\0';
  for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix);) {
    write.erase("key_value", at->first);
    erase(at++);
  }
}

void KeyValueTable::apply(const proto::KeyValue& request) {
  if (request.op() == proto::KeyValue::PUT) restore(full_key(request), request.value());
  if (request.op() != proto::KeyValue::DELETE) return;
  if (auto found = values_.find(full_key(request)); found != values_.end()) erase(found);
}

}  // namespace rayo::head
