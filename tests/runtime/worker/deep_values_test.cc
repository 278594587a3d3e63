// If this fails: a program that passes on the end of a long list of values, each with a ref to the one before, ends by SIGSEGV.
#include "tests/runtime/worker/process_fixture.h"

namespace rayo::worker {
namespace {

using internal::ObjectHandle;
using DeepValuesTest = ProcessTest;

TEST_F(DeepValuesTest, AChainOfValuesIsPassedOn) {
  ObjectHandle last = number(0);
  const ObjectId first = last.id;
  for (int64_t i = 1; i <= 50'000; ++i) {
    const internal::Bytes part = std::as_bytes(std::span(&i, 1));
    const ObjectHandle next = g_backend->put({&part, 1}, {&last, 1}, {});
    g_backend->release(last);
    last = next;
  }
  const int64_t five = 5;
  EXPECT_EQ(get(g_backend->call(spawn(0), {.function = 2,  // Counter::add of process_test.cc
                                           .arguments = std::as_bytes(std::span(&five, 1)),
                                           .inner_refs = {&last, 1}}))
                .number,
            5);
  // Under a sanitizer 50,000 messages take the fake raylet seconds.
  EXPECT_TRUE(soon([&] { return raylet_.knows(first) && raylet_.knows(last.id); }, std::chrono::seconds(60)));
  g_backend->release(last);
}

}  // namespace
}  // namespace rayo::worker
