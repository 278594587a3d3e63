// If these fail: calls start in another order than they were made, or one caller's slow argument holds up every other
// caller.
#include "runtime/worker/mailbox.h"

#include <gtest/gtest.h>
#include <random>

namespace rayo::worker {
namespace {

rpc::FrameHeader header_of(uint64_t call_id, size_t body) {
  rpc::FrameHeader header;
  header.call_id = call_id;
  header.length = static_cast<uint32_t>(body);
  return header;
}

class MailboxTest : public testing::Test {
 protected:
  // `refs`: its arguments are not there yet; the answer is what to count down.
  CallRefs* push(PeerId peer, uint64_t call_id, bool refs = false, size_t size = 24) {
    std::vector<std::byte> body(size, static_cast<std::byte>(call_id));
    auto waiting = refs ? std::make_unique<CallRefs>() : nullptr;
    if (refs) waiting->unready = 1;
    CallRefs* out = waiting.get();
    mailbox_.push(peer, header_of(call_id, size), body, std::move(waiting));
    return out;
  }
  std::vector<uint64_t> take_all() {
    std::vector<uint64_t> ids;
    IncomingCall call;
    while (mailbox_.take(call)) {
      for (std::byte b : call.body) EXPECT_EQ(b, static_cast<std::byte>(call.header.call_id));
      ids.push_back(call.header.call_id);
    }
    return ids;
  }
  Mailbox mailbox_;
};

using Ids = std::vector<uint64_t>;

TEST_F(MailboxTest, CallsComeOutInTheirOrder) {
  for (uint64_t i = 1; i <= 5; ++i) push(i % 2 + 1, i);
  EXPECT_EQ(mailbox_.size(), 5u);
  EXPECT_EQ(take_all(), Ids({1, 2, 3, 4, 5}));
  EXPECT_FALSE(mailbox_.may_take());
}

TEST_F(MailboxTest, AWaitingArgumentHoldsUpItsOwnCallerAlone) {
  CallRefs* refs = push(1, 1, true);
  push(2, 2);
  push(1, 3);
  push(2, 4);
  EXPECT_EQ(take_all(), Ids({2, 4}));
  push(1, 5);
  EXPECT_EQ(take_all(), Ids({}));
  refs->unready = 0;
  mailbox_.unblock(1);
  EXPECT_TRUE(mailbox_.may_take());
  EXPECT_EQ(take_all(), Ids({1, 3, 5}));
  EXPECT_EQ(mailbox_.size(), 0u);
}

TEST_F(MailboxTest, ACallThatWaitsIsFoundWhereverItLies) {
  push(1, 1);
  push(1, 2);
  IncomingCall call;
  EXPECT_TRUE(mailbox_.take(call));
  push(2, 3);  // behind what is being taken
  push(3, 4, true);
  EXPECT_FALSE(mailbox_.holds(1, 1));
  EXPECT_TRUE(mailbox_.holds(1, 2));
  EXPECT_TRUE(mailbox_.holds(2, 3));
  EXPECT_FALSE(mailbox_.holds(3, 2));
  EXPECT_EQ(take_all(), Ids({2, 3}));
  EXPECT_TRUE(mailbox_.holds(3, 4));
}

TEST_F(MailboxTest, AnyHistoryKeepsEachCallersOrder) {
  std::mt19937 random(7);
  std::vector<std::pair<PeerId, CallRefs*>> waiting;
  std::map<PeerId, uint64_t> pushed, taken;
  IncomingCall call;
  auto drain = [&](int most) {
    while (most-- > 0 && mailbox_.take(call)) {
      ASSERT_EQ(call.header.call_id, ++taken[call.peer]);
    }
  };
  for (int step = 0; step < 20'000; ++step) {
    const PeerId peer = 1 + random() % 3;
    if (random() % 2 == 0) {
      const bool refs = random() % 8 == 0;
      CallRefs* made = push(peer, ++pushed[peer], refs, random() % 600);
      if (refs) waiting.emplace_back(peer, made);
    } else if (random() % 3 == 0 && !waiting.empty()) {
      const size_t at = random() % waiting.size();
      waiting[at].second->unready = 0;
      mailbox_.unblock(waiting[at].first);
      waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(at));
    } else {
      drain(static_cast<int>(random() % 8));
    }
  }
  for (auto& [peer, refs] : waiting) {
    refs->unready = 0;
    mailbox_.unblock(peer);
  }
  drain(1 << 20);
  EXPECT_EQ(taken, pushed);
  EXPECT_EQ(mailbox_.size(), 0u);
}

// What a worker gives back must not start as well, and nothing of others may get lost on the way.
TEST_F(MailboxTest, TasksThatHaveNotStartedAreGivenBackToTheirPeerAlone) {
  for (uint64_t id = 1; id <= 3; ++id) push(1, id, false, 8 * id);
  IncomingCall call;
  ASSERT_TRUE(mailbox_.take(call));  // 1; the others are in the half that is being emptied
  push(2, 4);
  push(1, 5);
  std::vector<uint64_t> back;
  for (const IncomingCall& each : mailbox_.take_back(1, 2)) back.push_back(each.header.call_id);
  EXPECT_EQ(back, (std::vector<uint64_t>{3, 5}));
  EXPECT_EQ(mailbox_.size(), 2u);
  EXPECT_FALSE(mailbox_.holds(1, 5));
  EXPECT_EQ(take_all(), (std::vector<uint64_t>{2, 4}));
  EXPECT_TRUE(mailbox_.take_back(1, 0).empty());
}

TEST_F(MailboxTest, CallsOfActorsAreNotGivenBack) {
  rpc::FrameHeader header = header_of(1, 0);
  header.target = 7;
  mailbox_.push(1, header, {}, nullptr);
  EXPECT_TRUE(mailbox_.take_back(1, 0).empty());
  EXPECT_EQ(take_all(), std::vector<uint64_t>{1});
}

}  // namespace
}  // namespace rayo::worker
