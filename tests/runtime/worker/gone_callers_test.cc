// If these fail: an actor keeps what it answered to callers that were gone by then, for as long as it lives.
#include <sys/socket.h>
#include <unistd.h>

#include "tests/runtime/worker/process_fixture.h"

namespace rayo::worker {
namespace {

using internal::Function;
using internal::FunctionKind;
using internal::Invocation;
using internal::ObjectHandle;

constexpr uint64_t kGiveRef = 10;  // of process_test.cc, as the class itself
constexpr uint64_t kGiveLate = 60, kCallGiveLate = 61;

struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    out = base::Fd(ends[0]);
    in = base::Fd(ends[1]);
  }
  // Without CLOEXEC: the processes that are started from now on have it too.
  base::Fd out, in;
};
bool take(int fd) {
  char byte = 0;
  return ::read(fd, &byte, 1) == 1;
}
bool give(int fd) { return ::write(fd, "x", 1) == 1; }

// Says that it runs, waits until it may go on, and answers a ref of its own.
void give_late(Invocation& call) {
  give(static_cast<int>(load<int64_t>(call.arguments, 0)));
  take(static_cast<int>(load<int64_t>(call.arguments, 8)));
  g_backend->nodes();  // and has heard of its caller's end by now
  const ObjectHandle made = put_bytes(call.arguments);
  call.result_refs->push_back(made);
}
void call_give_late(Invocation& call) {
  const auto target = load<ActorId>(call.arguments, 16);
  (void)get(g_backend->call(target, {.function = kGiveLate, .arguments = call.arguments.first(16)}));
}
Function g_functions[] = {
    {.id = kGiveLate, .kind = FunctionKind::kMethod, .name = "give_late", .invoke = give_late},
    {.id = kCallGiveLate, .kind = FunctionKind::kMethod, .name = "call_give_late", .invoke = call_give_late},
};
// Before main: workers are this program too.
const bool g_registered = [] {
  for (Function& function : g_functions) internal::register_function(function);
  return true;
}();

using GoneCallersTest = ProcessTest;

TEST_F(GoneCallersTest, WhatIsAnsweredToACallerThatHasDiedIsLetGoOf) {
  const Pipe started, go_on;
  const ActorId giver = spawn(0), caller = spawn(0);
  std::vector<std::byte> arguments;
  store(&arguments, started.in.get());
  store(&arguments, go_on.out.get());
  const internal::Bytes target = std::as_bytes(std::span(&giver, 1));
  arguments.insert(arguments.end(), target.begin(), target.end());
  const ObjectHandle never = g_backend->call(caller, {.function = kCallGiveLate, .arguments = arguments});
  ASSERT_TRUE(take(started.out.get()));
  raylet_.kill_actor_process(caller, SIGKILL);
  ASSERT_TRUE(get(never).error);  // the giver has been told as well
  ASSERT_TRUE(give(go_on.in.get()));
  EXPECT_TRUE(soon([this] { return raylet_.objects() == 1; }));
  EXPECT_TRUE(soon([this] { return raylet_.held() == 0; }));
}

// Nothing else makes the actor look round: it looks for links without use some time in an hour.
class RestingActorTest : public ProcessTest {
 protected:
  RestingActorTest() : ProcessTest(std::chrono::hours(1)) {}
};

TEST_F(RestingActorTest, WhatWasTakenIsLetGoOfWithoutAnotherCall) {
  const ActorId giver = spawn(0);
  const ObjectHandle answer = call(giver, kGiveRef);
  ASSERT_FALSE(get(answer).error);
  g_backend->release(answer);
  g_backend->nodes();
  EXPECT_TRUE(soon([this] { return raylet_.objects() == 1 && raylet_.held() == 0; }));
}

// A process of another node that calls: its frames are written by hand.
class Stranger {
 public:
  Stranger(FakeRaylet& raylet, const ActorId& actor, const ProcessId& self) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    socket_ = base::Fd(ends[0]);
    const base::Fd theirs(ends[1]);
    EXPECT_EQ(::fcntl(theirs.get(), F_SETFL, O_NONBLOCK), 0);
    raylet.hand_over_to(actor, theirs.get());
    proto::ProcessAddress me;
    set_id(me.mutable_node(), NodeId{5, 5});
    set_id(me.mutable_process(), self);
    rpc::FrameHeader header;
    header.kind = rpc::FrameKind::kControl;
    send(header, me.SerializeAsString());
  }
  void call(const ActorId& actor, uint64_t function) {
    rpc::FrameHeader header;
    header.kind = rpc::FrameKind::kCall;
    header.call_id = 1;
    header.sequence = 1;
    header.target = base::short_id(actor);
    header.incarnation = 1;
    header.function = function;
    send(header, {});
  }
  rpc::FrameHeader reply() {
    rpc::FrameHeader header;
    EXPECT_EQ(::recv(socket_.get(), &header, sizeof header, MSG_WAITALL), static_cast<ssize_t>(sizeof header));
    return header;
  }

 private:
  void send(rpc::FrameHeader header, const std::string& body) {
    header.length = static_cast<uint32_t>(body.size());
    const std::string bytes = std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  base::Fd socket_;
};

TEST_F(GoneCallersTest, AndWhatWasAnsweredToOneThatHasComeAnew) {
  const ActorId giver = spawn(0);
  ASSERT_FALSE(get(call(giver, 2, 1)).error);
  const ProcessId self{6, 6};
  Stranger before(raylet_, giver, self);
  before.call(giver, kGiveRef);
  EXPECT_TRUE(before.reply().flags & rpc::kFlagRefs);
  EXPECT_EQ(raylet_.held(), 1u);
  const Stranger again(raylet_, giver, self);
  EXPECT_TRUE(soon([this] { return raylet_.held() == 0; }));
}

}  // namespace
}  // namespace rayo::worker
