// If this fails: get() of a reference that came too late never ends.
#include "tests/runtime/worker/process_fixture.h"

namespace rayo::worker {
namespace {

using ObjectWantedTest = ProcessTest;

TEST_F(ObjectWantedTest, WhatIsStillOwnedIsPublished) {
  internal::ObjectHandle made = number(7);
  EXPECT_FALSE(raylet_.knows(made.id));
  raylet_.want(made.id);
  EXPECT_TRUE(soon([&] { return raylet_.knows(made.id); }));
  EXPECT_FALSE(raylet_.was_disowned(made.id));
}

TEST_F(ObjectWantedTest, WhatIsGoneIsSaidToBeGone) {
  internal::ObjectHandle made = number(7);
  const ObjectId id = made.id;
  g_backend->release(made);
  internal::ObjectHandle again = number(8);  // in its slot, under another id
  raylet_.want(id);
  EXPECT_TRUE(soon([&] { return raylet_.was_disowned(id); }));
  EXPECT_FALSE(raylet_.was_disowned(again.id) || raylet_.knows(again.id));
}

}  // namespace
}  // namespace rayo::worker
