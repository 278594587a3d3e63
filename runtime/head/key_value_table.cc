#include "runtime/head/key_value_table.h"

#include "runtime/base/text.h"
#include "runtime/base/units.h"
#include "runtime/head/records.h"
#include "runtime/head/timeouts.h"

namespace rayo::head {

namespace {
std::string full_key(const proto::KeyValue& request) { return request.namespace_() + '\0' + request.key(); }
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
      if (request.value().size() > kKeyValueBytes) {
        *reply.mutable_failure() =
            failure(proto::INVALID,
                    base::cat("a value of ", base::format_size(static_cast<int64_t>(request.value().size())),
                              " is over the limit of ", base::format_size(kKeyValueBytes)),
                    "rayo::put holds large values; store its reference");
      } else if (!reply.found() || request.overwrite()) {
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

void KeyValueTable::end_namespace(const std::string& name_space, Batch& write) {
  const std::string prefix = name_space + '\0';
  for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix);) {
    write.erase("key_value", at->first);
    at = values_.erase(at);
  }
}

void KeyValueTable::apply(const proto::KeyValue& request) {
  if (request.op() == proto::KeyValue::PUT) values_[full_key(request)] = request.value();
  if (request.op() == proto::KeyValue::DELETE) values_.erase(full_key(request));
}

}  // namespace rayo::head
