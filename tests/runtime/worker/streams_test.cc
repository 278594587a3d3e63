// If these fail: a stream loses, doubles or reorders items, passes its window, or keeps what nobody will read.
#include "runtime/worker/streams.h"

#include <deque>
#include <gtest/gtest.h>
#include <random>

#include "runtime/worker/failure.h"

namespace rayo::worker {
namespace {

class NobodyObserves : public ObjectObserver {
 public:
  void freeing(ObjectSlot& slot) override {
    if (slot.watched) unheld.push_back(slot.id);
  }
  void release_actors(std::span<const ActorId>) override {}
  std::vector<ObjectId> unheld;
};

// Two processes and what lies between them: each frame waits until it is let through.
class Side : public CallWire {
 public:
  explicit Side(uint64_t process)
      : table(1, process, observer),
        streams({.calls = *this,
                 .table = table,
                 .adopt = [this](const ObjectId& id) -> ObjectSlot& { return table.adopt(id); },
                 .confirm = [this](std::function<void()> known) { confirms.push_back(std::move(known)); },
                 .backlog = [this](PeerId) { return backlog; },
                 .look_up = [this](const ActorId&, uint64_t number) { looked_up = number; },
                 .after = [this](base::Duration, std::function<void()> run) { due.push_back(std::move(run)); }}) {}

  bool send(PeerId peer, const rpc::FrameHeader& header, std::span<const Bytes> parts) override {
    if (peer != kPeer) return false;
    Frame frame{header, {}};
    for (const Bytes& part : parts) frame.body.insert(frame.body.end(), part.begin(), part.end());
    frame.header.length = static_cast<uint32_t>(frame.body.size());
    out.push_back(std::move(frame));
    return true;
  }
  void connect(const proto::ProcessAddress&, CallOwner& to) override {
    owner = &to;
    if (links) to.linked(kPeer);
  }
  void disconnect(CallOwner& to) override {
    if (owner == &to) owner = nullptr;
  }
  void share(ObjectSlot&) override {}
  void retain_actors(std::span<const ActorId>) override {}
  void release_actors(std::span<const ActorId>) override {}
  void watch_actor(const ActorId&) override {}
  void went_idle(const ActorId&) override {}
  void request_leases(const proto::RequestLeases&) override {}
  void return_lease(const LeaseId&, GiveBack) override {}
  base::TimePoint now() const override { return time; }
  void wake_at(base::TimePoint, CallOwner&) override {}

  struct Frame {
    rpc::FrameHeader header;
    std::vector<std::byte> body;
  };
  static constexpr PeerId kPeer = 1;
  NobodyObserves observer;
  ObjectTable table;
  std::deque<Frame> out;
  std::vector<std::function<void()>> confirms;
  std::vector<std::function<void()>> due;
  size_t backlog = 0;
  uint64_t looked_up = 0;
  bool links = true;
  CallOwner* owner = nullptr;
  base::TimePoint time{};
  Streams streams;
};

class StreamsTest : public testing::Test {
 protected:
  void make(uint32_t window, int64_t bytes = 1 << 20) {
    ObjectSlot& slot = maker_.streams.make({window, bytes});
    number_ = slot.id.counter;
    address_ = {.marker = slot.id, .actor = ActorId{3, 4}, .incarnation = 1, .window = window, .window_bytes = bytes};
    reading_ = reader_.streams.read(address_);
  }
  OutgoingStream& out() { return maker_.streams.outgoing(number_); }
  IncomingStream& in() { return reader_.streams.incoming(reading_); }
  bool write(uint64_t n, size_t size = 8) {
    if (!out().room()) return false;
    StreamItem item;
    item.value.resize(size);
    std::memcpy(item.value.data(), &n, sizeof n);
    maker_.streams.write(number_, std::move(item));
    return true;
  }
  std::optional<uint64_t> read() {
    auto item = in().take();
    if (!item) return std::nullopt;
    uint64_t n = 0;
    std::memcpy(&n, item->value.data(), sizeof n);
    return n;
  }
  static bool pass_one(Side& from, Side& to) {
    if (from.out.empty()) return false;
    const Side::Frame frame = std::move(from.out.front());
    from.out.pop_front();
    to.streams.on_frame(Side::kPeer, frame.header, frame.body);
    return true;
  }
  void pass_all() {
    while (pass_one(maker_, reader_) || pass_one(reader_, maker_)) {
    }
  }

  Side maker_{1}, reader_{2};
  uint64_t number_ = 0;
  uint64_t reading_ = 0;
  internal::StreamAddress address_;
};

// Whatever the order in which either side gets on, each item comes once and in order, and never more than the window wait.
TEST_F(StreamsTest, EveryItemOnceAndInOrderWhateverTheTiming) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    make(1 + random() % 20, 1 + static_cast<int64_t>(random() % 4000));
    uint64_t written = 0, taken = 0;
    const uint64_t total = random() % 300;
    bool closed = false;
    for (int step = 0; step < 100'000 && !(closed && in().readable() && taken == total); ++step) {
      switch (random() % 6) {
        case 0:
          in().open();
          break;
        case 1:
          pass_one(maker_, reader_);
          break;
        case 2:
          pass_one(reader_, maker_);
          break;
        case 3:
          if (written < total && write(written, 8 + random() % 500)) ++written;
          if (written == total && !closed) maker_.streams.end(number_, nullptr), closed = true;
          break;
        case 4:
          if (auto n = read()) {
            ASSERT_EQ(*n, taken++);
          }
          break;
        default:
          maker_.backlog = random() % 2 ? kMaxBacklog : 0;
          for (auto& run : std::exchange(maker_.due, {})) run();
      }
      ASSERT_LE(written - taken, address_.window);
    }
    ASSERT_EQ(taken, total);
    EXPECT_FALSE(read());
    EXPECT_EQ(in().error(), nullptr);
    pass_all();
    reader_.streams.reader_gone(reading_);
    pass_all();
    maker_.streams.writer_gone(number_);
    EXPECT_EQ(maker_.streams.count() + reader_.streams.count(), 0u) << "nothing is kept";
    maker_.backlog = 0;
  }
}

TEST_F(StreamsTest, WhatIsWrittenBeforeAReaderComesWaits) {
  make(3);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(write(i));
  EXPECT_FALSE(write(3));
  EXPECT_TRUE(maker_.out.empty());
  in().open();
  pass_all();
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(read(), i);
  pass_all();
  EXPECT_TRUE(write(3)) << "credit came back";
}

TEST_F(StreamsTest, ASecondReaderIsRefusedAndTheFirstGoesOn) {
  make(3);
  in().open();
  pass_all();
  const uint64_t second = reader_.streams.read(address_);
  reader_.streams.incoming(second).open();
  pass_all();
  ASSERT_TRUE(reader_.streams.incoming(second).readable());
  ASSERT_NE(reader_.streams.incoming(second).error(), nullptr);
  EXPECT_EQ(reader_.streams.incoming(second).error()->kind, ErrorKind::kInvalid);
  reader_.streams.reader_gone(second);
  pass_all();
  EXPECT_FALSE(out().cancelled());
  EXPECT_TRUE(write(1));
  pass_all();
  EXPECT_EQ(read(), 1u);
}

TEST_F(StreamsTest, TheEndOfEitherSideReachesTheOther) {
  make(3);
  in().open();
  pass_all();
  write(1);
  pass_all();
  maker_.streams.on_peer_closed(Side::kPeer);
  EXPECT_TRUE(out().cancelled()) << "the reader's process is gone";
  proto::DeathRecord death;
  death.set_text("it was killed");
  reader_.owner->peer_gone(death);
  reader_.owner->link_lost();
  EXPECT_EQ(read(), 1u) << "what came before the death counts";
  ASSERT_TRUE(in().readable());
  ASSERT_NE(in().error(), nullptr);
  EXPECT_EQ(in().error()->kind, ErrorKind::kActorDied);
}

TEST_F(StreamsTest, ABrokenLinkAsksWhatBecameOfTheMaker) {
  make(3);
  in().open();
  pass_all();
  reader_.owner->link_lost();
  EXPECT_FALSE(in().readable()) << "nobody has said why yet";
  reader_.owner->on_deadline(reader_.time);
  EXPECT_EQ(reader_.looked_up, reading_);
  proto::ActorInfo info;
  info.set_state(proto::ALIVE);
  info.set_incarnation(1);
  reader_.streams.on_maker(reading_, info);
  EXPECT_FALSE(in().readable());
  info.set_state(proto::DEAD);
  info.mutable_death()->set_text("it was killed");
  reader_.streams.on_maker(reading_, info);
  ASSERT_NE(in().error(), nullptr);
  EXPECT_EQ(in().error()->kind, ErrorKind::kActorDied);
}

TEST_F(StreamsTest, AMakerThatAlwaysLivesAndNeverAnswersIsGivenUp) {
  make(3);
  reader_.links = false;
  in().open();
  reader_.owner->link_failed(error_record(ErrorKind::kUnavailable, "refused"));
  for (int i = 0; i < 14; ++i) {
    reader_.time += std::chrono::seconds(1);
    reader_.owner->on_deadline(reader_.time);
    reader_.owner->link_failed(error_record(ErrorKind::kUnavailable, "refused"));
  }
  EXPECT_FALSE(in().readable());
  reader_.time += std::chrono::seconds(2);
  reader_.owner->on_deadline(reader_.time);
  ASSERT_NE(in().error(), nullptr);
  EXPECT_EQ(in().error()->kind, ErrorKind::kUnavailable);
}

TEST_F(StreamsTest, AStreamThatNobodyHoldsIsCancelled) {
  make(3);
  write(1);
  maker_.streams.on_unheld(address_.marker);
  EXPECT_TRUE(out().cancelled());
  maker_.streams.writer_gone(number_);
  EXPECT_EQ(maker_.streams.count(), 0u);
  maker_.streams.on_unheld(address_.marker);  // told twice
}

TEST_F(StreamsTest, RefsInsideAnItemAreKeptUntilTheReaderHoldsThem) {
  make(8);
  in().open();
  pass_all();
  ObjectSlot& inside = maker_.table.mint();
  StreamItem item;
  item.value.resize(8);
  item.inner.refs.push_back(inside.handle());
  maker_.streams.write(number_, std::move(item));
  pass_all();
  auto taken = in().take();
  ASSERT_TRUE(taken);
  ASSERT_EQ(taken->inner.refs.size(), 1u);
  EXPECT_EQ(taken->inner.refs[0].id, inside.id);
  pass_all();
  EXPECT_TRUE(inside.held()) << "the reader's raylet may not know of it yet";
  ASSERT_EQ(reader_.confirms.size(), 1u);
  reader_.confirms[0]();
  pass_all();
  EXPECT_FALSE(inside.held());
  reader_.streams.let_go_of(std::move(taken->inner));
}

TEST_F(StreamsTest, AMakerThatSendsTooMuchOrOutOfOrderEndsTheStreamAlone) {
  for (uint64_t sequence : {uint64_t{2}, uint64_t{0}}) {
    make(2);
    in().open();
    rpc::FrameHeader header;
    header.kind = rpc::FrameKind::kStreamItem;
    header.call_id = reading_;
    header.sequence = sequence;
    reader_.streams.on_frame(Side::kPeer, header, {});
    ASSERT_TRUE(in().readable());
    EXPECT_EQ(in().error()->kind, ErrorKind::kInternal);
  }
  make(2);
  in().open();
  for (uint64_t sequence : {1, 2, 3}) {
    rpc::FrameHeader header;
    header.kind = rpc::FrameKind::kStreamItem;
    header.call_id = reading_;
    header.sequence = sequence;
    reader_.streams.on_frame(Side::kPeer, header, {});
  }
  EXPECT_TRUE(in().take());
  EXPECT_TRUE(in().take());
  EXPECT_FALSE(in().take());
  EXPECT_EQ(in().error()->kind, ErrorKind::kInternal);
}

TEST_F(StreamsTest, FramesOfStrangersChangeNothing) {
  make(2);
  in().open();
  pass_all();
  write(1);
  for (auto kind : {rpc::FrameKind::kStreamCredit, rpc::FrameKind::kStreamCancel}) {
    rpc::FrameHeader header;
    header.kind = kind;
    header.call_id = number_;
    header.target = 999;  // another reader's number
    header.sequence = 1;
    header.function = 8;
    maker_.streams.on_frame(Side::kPeer, header, {});
    header.target = reading_;
    header.sequence = 100;  // never sent
    if (kind == rpc::FrameKind::kStreamCredit) maker_.streams.on_frame(Side::kPeer, header, {});
    maker_.streams.on_frame(7, header, {});
  }
  EXPECT_FALSE(out().cancelled());
  EXPECT_TRUE(write(2));
  EXPECT_FALSE(write(3));
}

}  // namespace
}  // namespace rayo::worker
