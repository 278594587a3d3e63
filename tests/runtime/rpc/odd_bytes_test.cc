// If these fail: one byte of a user's that is no UTF-8 makes a message that leaves and never arrives. A field of type string is
// checked where it is read; what users write is bytes.
#include <gtest/gtest.h>

#include "runtime/proto/head.pb.h"

namespace rayo::proto {
namespace {

constexpr const char* kOdd = "caf\xe9";

template <class Message>
void expect_arrives(const Message& message) {
  Message arrived;
  EXPECT_TRUE(arrived.ParseFromString(message.SerializeAsString())) << message.GetTypeName();
}

TEST(OddBytes, OfADriverArrive) {
  Hello hello;
  hello.set_program(kOdd);
  hello.set_namespace_(kOdd);
  hello.add_arguments(kOdd);
  hello.set_working_directory(kOdd);
  hello.add_environment(kOdd);
  expect_arrives(hello);
  JobEvent event;
  JobInfo info;
  auto fill = [](auto& job) {
    job.set_program(kOdd);
    job.set_namespace_(kOdd);
    job.add_arguments(kOdd);
    job.set_working_directory(kOdd);
    job.add_environment(kOdd);
  };
  fill(event);
  fill(info);
  expect_arrives(event);
  expect_arrives(info);
  OfferPackage offer;
  offer.set_program(kOdd);
  expect_arrives(offer);
}

TEST(OddBytes, OfNamesArrive) {
  ActorSpec spec;
  spec.set_name(kOdd);
  spec.set_namespace_(kOdd);
  spec.set_class_name(kOdd);
  spec.add_environment(kOdd);
  spec.mutable_demand()->add_labels()->set_key(kOdd);
  spec.mutable_demand()->mutable_labels(0)->add_values(kOdd);
  expect_arrives(spec);
  FindActor find;
  find.set_name(kOdd);
  find.set_namespace_(kOdd);
  expect_arrives(find);
  KeyValue key_value;
  key_value.set_namespace_(kOdd);
  key_value.set_key(kOdd);
  expect_arrives(key_value);
  KeyValueReply keys;
  keys.add_keys(kOdd);
  expect_arrives(keys);
  RequestLeases wish;
  wish.set_what(kOdd);
  expect_arrives(wish);
  PlaceLeasesRequest question;
  question.set_what(kOdd);
  expect_arrives(question);
  ResourceReport report;
  report.add_pending()->set_example(kOdd);
  expect_arrives(report);
  CallNote note;
  note.set_name(kOdd);
  expect_arrives(note);
  WhyRequest why;
  why.set_id(kOdd);
  expect_arrives(why);
}

TEST(OddBytes, OfWhatWasPrintedOrThrownArrive) {
  ActorInfo info;
  info.set_name(kOdd);
  info.set_namespace_(kOdd);
  info.set_class_name(kOdd);
  info.mutable_death()->set_text(kOdd);
  info.mutable_death()->add_last_log_lines(kOdd);
  info.mutable_failure()->set_text(kOdd);
  info.mutable_failure()->set_next_step(kOdd);
  info.mutable_failure()->set_remote_type(kOdd);
  info.mutable_failure()->set_stack(kOdd);
  info.add_reasons()->set_text(kOdd);
  expect_arrives(info);
  LogLines lines;
  lines.set_source(kOdd);
  lines.set_node(kOdd);
  lines.add_lines(kOdd);
  expect_arrives(lines);
  Notice notice;
  notice.set_text(kOdd);
  expect_arrives(notice);
  Exit end;
  end.set_reason(kOdd);
  expect_arrives(end);
  StatusReply status;
  status.add_events()->set_text(kOdd);
  status.add_pending()->add_examples(kOdd);
  expect_arrives(status);
  ListReply list;
  list.add_workers()->set_what(kOdd);
  list.add_tasks()->set_name(kOdd);
  list.add_objects()->set_failure(kOdd);
  expect_arrives(list);
  WhyReply reply;
  reply.set_text(kOdd);
  expect_arrives(reply);
}

}  // namespace
}  // namespace rayo::proto
