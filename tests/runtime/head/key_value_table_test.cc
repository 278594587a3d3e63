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

// If it fails, one program's loop fills the head's disk, and nobody can create anything any more.
TEST(KeyValueTable, ANamespaceAndAllOfThemHaveALimit) {
  KeyValueTable table(8 * kKeyValueBytes, 20 * kKeyValueBytes);
  auto put_large = [&](const std::string& name_space, const std::string& key) {
    auto put = request(proto::KeyValue::PUT, name_space, key);
    put.set_value(std::string(kKeyValueBytes, 'x'));
    put.set_overwrite(true);
    Batch write;
    auto reply = table.answer(put, write);
    EXPECT_EQ(write.empty(), reply.has_failure()) << reply.failure().text();
    if (!reply.has_failure()) table.apply(put);
    return !reply.has_failure();
  };
  int taken = 0;
  while (put_large("greedy", std::to_string(taken))) ++taken;
  EXPECT_EQ(taken, 7) << "8 MiB, and there are the keys";
  EXPECT_TRUE(put_large("greedy", "6")) << "in another's place";
  EXPECT_TRUE(put_large("other", "7"));
  table.apply(request(proto::KeyValue::DELETE, "greedy", "6"));
  EXPECT_TRUE(put_large("greedy", "new"));
  EXPECT_FALSE(put_large("greedy", "more"));
  Batch ended;
  table.end_namespace("greedy", ended);
  EXPECT_TRUE(put_large("greedy", "again"));
  int all = 2;
  while (put_large("space " + std::to_string(all / 5), std::to_string(all))) ++all;
  EXPECT_EQ(all, 19) << "20 MiB, and there are the keys";
}

}  // namespace
}  // namespace rayo::head
