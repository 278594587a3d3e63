// The values that programs keep in the control store: what ends with its job, and what stays.
#include "runtime/head/key_value_table.h"

#include <gtest/gtest.h>

#include "runtime/head/records.h"

namespace rayo::head {
namespace {

proto::KeyValue request(proto::KeyValue::Op op, const std::string& name_space, const std::string& key) {
  proto::KeyValue message;
  message.set_op(op);
  message.set_namespace_(name_space);
  message.set_key(key);
  message.set_value("value of " + key);
  return message;
}

void put(KeyValueTable& table, const std::string& name_space, const std::string& key) {
  Batch write;
  table.answer(request(proto::KeyValue::PUT, name_space, key), write);
  table.apply(request(proto::KeyValue::PUT, name_space, key));
}

bool has(const KeyValueTable& table, const std::string& name_space, const std::string& key) {
  Batch none;
  return table.answer(request(proto::KeyValue::GET, name_space, key), none).found();
}

// If it fails, each Python program leaves its functions in the control store for ever.
TEST(KeyValueTable, AJobsValuesEndWithItAndOthersStay) {
  KeyValueTable table;
  put(table, "job:1", "f");
  put(table, "job:1", "g");
  put(table, "job:10", "f");
  put(table, "job:", "f");
  Batch write;
  table.end_namespace("job:1", write);
  EXPECT_FALSE(has(table, "job:1", "f"));
  EXPECT_FALSE(has(table, "job:1", "g"));
  EXPECT_TRUE(has(table, "job:10", "f"));
  EXPECT_TRUE(has(table, "job:", "f"));
  EXPECT_FALSE(write.empty()) << "the store forgets them too";
  Batch again;
  table.end_namespace("job:1", again);
  EXPECT_TRUE(again.empty()) << "handled twice it changes nothing";
}

}  // namespace
}  // namespace rayo::head
