// If these fail: a call, a result or an item with more refs than a frame names never arrives, and neither does what is behind it.
#include <rayo/stream.h>

#include "tests/runtime/worker/process_fixture.h"

namespace rayo::worker {
namespace {

using internal::Function;
using internal::FunctionKind;
using internal::Invocation;
using internal::ObjectHandle;

constexpr uint64_t kAdd = 2;          // of process_test.cc, as the class itself
constexpr size_t kTooMany = 700'000;  // ids of 24 bytes: 16.8 MB

// Answers so many refs of one object.
void give_refs(Invocation& call) {
  const auto count = load<int64_t>(call.arguments);
  const ObjectHandle made = put_bytes(call.arguments);
  for (int64_t i = 1; i < count; ++i) g_backend->retain(made);
  call.result_refs->assign(static_cast<size_t>(count), made);
  store(call.result, count);
}
Function g_give_refs{.id = 50, .kind = FunctionKind::kMethod, .name = "give_refs", .invoke = give_refs};
// Before main: workers are this program too.
const bool g_registered = [] {
  internal::register_function(g_give_refs);
  return true;
}();

class FullFramesTest : public ProcessTest {
 protected:
  // A call to kAdd with 5 whose argument holds so many refs.
  ObjectHandle add_with(const ActorId& actor, size_t refs) {
    const int64_t five = 5;
    const std::vector<ObjectHandle> inside(refs, made_);
    return g_backend->call(actor,
                           {.function = kAdd, .arguments = std::as_bytes(std::span(&five, 1)), .inner_refs = inside});
  }
  void SetUp() override {
    ProcessTest::SetUp();
    made_ = number(1);
  }
  ObjectHandle made_;
};

TEST_F(FullFramesTest, ACallWithMoreRefsThanItsFrameNamesIsRefusedAndThoseBehindItLeave) {
  const ActorId counter = spawn(0);
  EXPECT_THROW(add_with(counter, kTooMany), Invalid);
  EXPECT_EQ(get(add_with(counter, 500'000)).number, 5);
  EXPECT_EQ(get(call(counter, kAdd, 1)).number, 6);
}

TEST_F(FullFramesTest, RefsInsideValuesThatTravelAlongCountToo) {
  const std::vector<ObjectHandle> inside(2'000, made_);
  const int64_t three = 3;
  const internal::Bytes part = std::as_bytes(std::span(&three, 1));
  const std::vector<ObjectHandle> arguments(400, g_backend->put({&part, 1}, inside, {}));
  EXPECT_EQ(get(g_backend->call(spawn(0), {.function = kAdd, .refs = arguments})).number, 1'200);
}

TEST_F(FullFramesTest, AResultWithMoreRefsThanItsFrameNamesIsAnError) {
  const ActorId counter = spawn(0);
  EXPECT_EQ(get(call(counter, 50, 500'000)).number, 500'000);
  const Read read = get(call(counter, 50, kTooMany));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->kind, ErrorKind::kOutOfMemory) << read.error->text;
  EXPECT_NE(read.error->text.find("700000 refs"), std::string::npos) << read.error->text;
}

TEST_F(FullFramesTest, AnItemWithMoreRefsThanItsFrameNamesIsRefused) {
  const internal::MadeStream stream = g_backend->make_stream({});
  const std::vector<ObjectHandle> inside(kTooMany, made_);
  EXPECT_THROW(stream.writing->write({}, inside, {}, std::chrono::seconds(1)), Invalid);
}

}  // namespace
}  // namespace rayo::worker
