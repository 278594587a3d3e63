// If this fails: a program that was told that the object store is full, and lets go of what it has there, finds it full for ever.
#include "tests/runtime/worker/process_fixture.h"

namespace rayo::worker {
namespace {

class FullStoreTest : public ProcessTest {
 protected:
  FullStoreTest() { raylet_.give_full_arena(); }
};

TEST_F(FullStoreTest, APutThatFindsNoRoomKeepsNothingOfWhatIsInIt) {
  const internal::ObjectHandle inside = g_backend->adopt({1, 2, 3});
  const ActorId actor{9, 9};
  g_backend->retain_actor(actor);
  g_backend->nodes();  // the raylet has heard of them by now
  ASSERT_TRUE(raylet_.holds(inside.id));
  const std::vector<std::byte> value(200 << 10);
  const internal::Bytes part = value;
  EXPECT_THROW(g_backend->put({&part, 1}, {&inside, 1}, {&actor, 1}), OutOfMemory);
  g_backend->release(inside);
  g_backend->release_actor(actor);
  g_backend->nodes();
  EXPECT_FALSE(raylet_.holds(inside.id));
  EXPECT_TRUE(raylet_.was_dropped(actor));
}

}  // namespace
}  // namespace rayo::worker
