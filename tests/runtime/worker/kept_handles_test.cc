// If these fail: who calls lets go of an actor before the head knows that the callee has kept a handle, and the actor ends; or
// every call that names a handle waits for the head.
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/worker/call_wire.h"
#include "tests/runtime/worker/process_fixture.h"

namespace rayo::worker {
namespace {

using internal::Bytes;
using internal::Function;
using internal::FunctionKind;
using internal::Invocation;
using internal::ObjectHandle;

constexpr uint64_t kAdd = 2;  // of process_test.cc, as the class itself

template <class Id>
Bytes bytes_of(const Id& id) {
  return std::as_bytes(std::span(&id, 1));
}

void keep_handle(Invocation& call) { g_backend->retain_actor(load<ActorId>(call.arguments, 8)); }
void keep_handle_and_fail(Invocation& call) {
  keep_handle(call);
  throw std::invalid_argument("kept it");
}
void keep_what_lies_in_the_argument(Invocation& call) { g_backend->retain_actor(load<ActorId>(call.refs[0].bytes)); }
void keep_ref(Invocation& call) { (void)g_backend->adopt(load<ObjectId>(call.arguments)); }
// Keeps a ref, and answers with so many bytes.
void keep_ref_and_answer(Invocation& call) {
  keep_ref(call);
  call.result->resize(static_cast<size_t>(load<int64_t>(call.arguments, sizeof(ObjectId))), std::byte{7});
}
// Until the test writes to that pipe.
void await_byte(Invocation& call) {
  char byte = 0;
  store(call.result, ::read(static_cast<int>(load<int64_t>(call.arguments)), &byte, 1));
}
void look(Invocation& call) { store(call.result, static_cast<int64_t>(call.refs.size())); }
// Puts the handle into a value and gives that to another actor: nothing of it stays here.
void give_inside(Invocation& call) {
  const auto actor = load<ActorId>(call.arguments, 8), other = load<ActorId>(call.arguments, 24);
  const Bytes value = bytes_of(actor);
  ObjectHandle made = g_backend->put({&value, 1}, {}, {&actor, 1});
  ObjectHandle given =
      g_backend->call(other, {.function = 42, .arguments = bytes_of(made.id), .inner_refs = {&made, 1}});
  if (const Read read = get(given); read.error) throw_error(*read.error);
  g_backend->release(given);
  g_backend->release(made);
  const int64_t nothing = 0;
  ObjectHandle later = g_backend->call(other, {.function = kAdd, .arguments = bytes_of(nothing)});
  (void)get(later);  // and what was let go of is gone
  g_backend->release(later);
}

Function g_functions[] = {
    {.id = 40, .kind = FunctionKind::kMethod, .name = "keep_handle", .invoke = keep_handle},
    {.id = 41, .kind = FunctionKind::kMethod, .name = "keep_inside", .invoke = keep_what_lies_in_the_argument},
    {.id = 42, .kind = FunctionKind::kMethod, .name = "keep_ref", .invoke = keep_ref},
    {.id = 43, .kind = FunctionKind::kMethod, .name = "give_inside", .invoke = give_inside},
    {.id = 44, .kind = FunctionKind::kMethod, .name = "look", .invoke = look},
    {.id = 45, .kind = FunctionKind::kMethod, .name = "keep_ref_and_answer", .invoke = keep_ref_and_answer},
    {.id = 47, .kind = FunctionKind::kMethod, .name = "keep_handle_and_fail", .invoke = keep_handle_and_fail},
    {.id = 46, .kind = FunctionKind::kMethod, .name = "await_byte", .invoke = await_byte},
};
// Before main: workers are this program too.
const bool g_registered = [] {
  for (Function& function : g_functions) internal::register_function(function);
  return true;
}();

class KeptHandlesTest : public ProcessTest {
 protected:
  // The call's worker asks its raylet whether the head knows, and answers only then.
  Read expect_waits_for_the_head(const std::function<ObjectHandle()>& make_call) {
    raylet_.hold_back_marks();
    ObjectHandle reply = make_call();
    EXPECT_TRUE(soon([this] { return raylet_.marks_asked != 0; }));
    EXPECT_EQ(raylet_.marks_asked, 1);
    EXPECT_FALSE(g_backend->ready(reply));
    raylet_.answer_marks();
    return get(reply);
  }
  void expect_answers_when_the_head_knows(const std::function<ObjectHandle()>& make_call) {
    const Read read = expect_waits_for_the_head(make_call);
    EXPECT_FALSE(read.error) << read.error->text;
  }
  // A value that holds the handle, with so many bytes besides.
  static ObjectHandle holding(const ActorId& actor, size_t more) {
    const std::vector<std::byte> padding(more);
    const Bytes parts[] = {bytes_of(actor), padding};
    return g_backend->put(parts, {}, {&actor, 1});
  }

  const ActorId actor_{9, 9};
};

TEST_F(KeptHandlesTest, AReplyWaitsUntilTheHeadKnowsOfAHandleThatWasKept) {
  const ActorId counter = spawn(0);
  expect_answers_when_the_head_knows([&] { return call(counter, 40, 0, {actor_}); });
}

TEST_F(KeptHandlesTest, OrOfOneThatWasInsideAnArgument) {
  const ActorId counter = spawn(0);
  ObjectHandle value = holding(actor_, 0);  // it travels in the call
  expect_answers_when_the_head_knows([&] { return g_backend->call(counter, {.function = 41, .refs = {&value, 1}}); });
}

TEST_F(KeptHandlesTest, OrInsideOneThatItFetched) {
  const ActorId counter = spawn(0);
  ObjectHandle value = holding(actor_, kInlineArgument);
  expect_answers_when_the_head_knows([&] { return g_backend->call(counter, {.function = 41, .refs = {&value, 1}}); });
}

TEST_F(KeptHandlesTest, OrOfOneThatItPutIntoAValueAndLetGoOf) {
  const ActorId counter = spawn(0), other = spawn(0);
  expect_answers_when_the_head_knows([&] { return call(counter, 43, 0, {actor_, other}); });
}

TEST_F(KeptHandlesTest, AFailureWaitsToo) {
  const ActorId counter = spawn(0);
  const Read read = expect_waits_for_the_head([&] { return call(counter, 47, 0, {actor_}); });
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->kind, ErrorKind::kTask) << read.error->text;
}

TEST_F(KeptHandlesTest, AReplyThatKeepsNothingWaitsForNobody) {
  const ActorId counter = spawn(0);
  ObjectHandle value = holding(actor_, 0);
  EXPECT_EQ(get(call(counter, kAdd, 5, {actor_})).number, 5);
  EXPECT_EQ(get(g_backend->call(counter, {.function = 44, .refs = {&value, 1}})).number, 1);
  EXPECT_EQ(raylet_.marks_asked, 0);
}

TEST_F(KeptHandlesTest, AReplyOfAnySizeComesWhereSomethingWasKept) {
  const ActorId counter = spawn(0);
  ObjectHandle made = number(1);
  const auto answer_with = [&](int64_t size) {
    const Bytes id = bytes_of(made.id), count = bytes_of(size);
    std::vector<std::byte> arguments(id.begin(), id.end());
    arguments.insert(arguments.end(), count.begin(), count.end());
    return get(g_backend->call(counter, {.function = 45, .arguments = arguments, .inner_refs = {&made, 1}}));
  };
  EXPECT_EQ(answer_with(15 << 20).size, size_t{15} << 20);
  const Read larger_than_a_frame = answer_with(17 << 20);  // and there is no arena
  ASSERT_TRUE(larger_than_a_frame.error);
  EXPECT_EQ(larger_than_a_frame.error->kind, ErrorKind::kOutOfMemory) << larger_than_a_frame.error->text;
}

TEST_F(KeptHandlesTest, WhatTheHeadKnowsIsNotAskedForAgain) {
  const ActorId counter = spawn(0);
  EXPECT_FALSE(get(call(counter, 40, 0, {actor_})).error);
  EXPECT_FALSE(get(call(counter, 40, 0, {actor_})).error);
  EXPECT_EQ(raylet_.marks_asked, 1);
}

TEST_F(KeptHandlesTest, AnActorWhoseLastHandleLayInAValueEndsAfterItsCalls) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const base::Fd here(ends[0]), there(ends[1]);
  const ActorId counter = spawn(0);
  ObjectHandle value = holding(counter, 0);
  ObjectHandle result = call(counter, 46, here.get());  // its process has the pipe too
  g_backend->release_actor(counter);
  g_backend->release(value);
  g_backend->nodes();  // the raylet has heard of it by now
  EXPECT_FALSE(raylet_.was_dropped(counter));
  ASSERT_EQ(::write(there.get(), "x", 1), 1);
  EXPECT_EQ(get(result).number, 1);
  EXPECT_TRUE(soon([&] { return raylet_.was_dropped(counter); }));
  EXPECT_TRUE(soon([&] { return raylet_.was_unwatched(counter); }));
}

}  // namespace
}  // namespace rayo::worker
