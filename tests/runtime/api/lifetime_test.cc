// If this fails, an actor that was to outlive its handles is gone, or one that nobody could ever find lives on; or what a
// value refers to is gone before the value has arrived.
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <utility>

#include <rayo/rayo.h>

#include "tests/runtime/api/backends.h"

namespace {

struct Keeper {
  int64_t count = 0;
  std::vector<rayo::ObjectRef<int64_t>> kept;
  int64_t add() { return ++count; }
  int64_t add_slowly() {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return add();
  }
  std::vector<double> keep(std::vector<rayo::ObjectRef<int64_t>> refs, int64_t size) {
    kept = std::move(refs);
    return std::vector<double>(static_cast<size_t>(size), 1.0);
  }
};

rayo::ActorHandle<Keeper> make_keeper() { return rayo::spawn<Keeper>(); }
// All handles end here, the one inside the task's result last.
rayo::ObjectRef<int64_t> start_keeper() {
  auto made = rayo::remote<make_keeper>();
  auto keeper = made.get();
  return keeper.call<&Keeper::add_slowly>();
}

// Travels as a ref to its text and an actor that reads it, both made for that alone.
class Letter {
 public:
  explicit Letter(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct Reader {
  std::string read(const std::string& text) { return text; }
};

}  // namespace

template <>
struct rayo::Codec<Letter> {
  static void encode(rayo::Encoder& out, const Letter& letter) {
    rayo::encode(out, rayo::put(letter.text()));
    rayo::encode(out, rayo::spawn<Reader>());
  }
  static Letter decode(rayo::Decoder& in) {
    auto text = rayo::decode<rayo::ObjectRef<std::string>>(in);
    return Letter(rayo::decode<rayo::ActorHandle<Reader>>(in).call<&Reader::read>(text).get());
  }
};

namespace {

std::string open_letter(const Letter& letter) { return letter.text(); }
Letter copy_letter(const Letter& letter) { return letter; }

TEST_F(ApiTest, WhatIsMadeWhileAValueIsEncodedLivesAsLongAsTheValue) {
  for (const size_t size : {size_t{10}, size_t{300'000}}) {
    const Letter letter(std::string(size, 'x'));
    EXPECT_EQ(rayo::remote<open_letter>(letter).get(), letter.text());
    EXPECT_EQ(rayo::remote<copy_letter>(letter).get().text(), letter.text());
    EXPECT_EQ(rayo::put(letter).get().text(), letter.text());
  }
}

TEST_F(ApiTest, ADetachedActorOutlivesItsHandlesUntilItIsKilled) {
  const rayo::ActorOptions detached{.name = "keeper", .lifetime = rayo::Lifetime::kDetached};
  {
    auto keeper = rayo::spawn<Keeper>(detached);
    EXPECT_EQ(keeper.call<&Keeper::add>().get(), 1);
  }
  EXPECT_EQ(rayo::actor<Keeper>("keeper").call<&Keeper::add>().get(), 2);
  EXPECT_EQ(rayo::actor<Keeper>("keeper").call<&Keeper::add>().get(), 3);
  EXPECT_THROW(rayo::spawn<Keeper>(detached), rayo::Invalid) << "the name is taken";
  auto keeper = rayo::actor<Keeper>("keeper");
  rayo::kill(keeper);
  EXPECT_THROW(keeper.call<&Keeper::add>().get(), rayo::ActorDied);
  EXPECT_THROW(rayo::actor<Keeper>("keeper"), rayo::Invalid);
}

TEST_F(ApiTest, AKillThatMeansOneLifeEndsAnActorThatHasNoOther) {
  auto keeper = rayo::spawn<Keeper>();
  EXPECT_EQ(keeper.call<&Keeper::add>().get(), 1);
  rayo::kill(keeper, {.no_restart = false});
  EXPECT_THROW(keeper.call<&Keeper::add>().get(), rayo::ActorDied);
  auto phoenix = rayo::spawn<Keeper>({.max_restarts = 1});
  EXPECT_EQ(phoenix.call<&Keeper::add>().get(), 1);
  if (on_cluster()) {
    rayo::kill(phoenix, {.no_restart = false});
    EXPECT_EQ(phoenix.call<&Keeper::add>().get(), 1) << "it begins anew";
  } else {
    EXPECT_THROW(rayo::kill(phoenix, {.no_restart = false}), rayo::Invalid);
  }
}

struct Notes {
  int64_t count = 0;
  void note() { ++count; }
  int64_t counted() { return count; }
};

// Says good-bye a hundred times.
class Polite {
 public:
  explicit Polite(rayo::ActorHandle<Notes> notes) : notes_(std::move(notes)) { notes_.call<&Notes::note>().get(); }
  ~Polite() {
    for (int i = 0; i < 100; ++i) notes_.call<&Notes::note>();
  }
  void nothing() {}

 private:
  rayo::ActorHandle<Notes> notes_;
};

TEST_F(ApiTest, WhatAnActorCallsAsItEndsArrives) {
  auto notes = rayo::spawn<Notes>();
  rayo::spawn<Polite>(notes).call<&Polite::nothing>().get();
  EXPECT_TRUE(soon([&] { return notes.call<&Notes::counted>().get() == 101; }));
}

TEST_F(ApiTest, ADetachedActorNeedsAName) {
  EXPECT_THROW(
      {
        auto nameless = rayo::spawn<Keeper>({.lifetime = rayo::Lifetime::kDetached});
        nameless.call<&Keeper::add>().get();
      },
      rayo::Error);
}

TEST_F(ApiTest, RestartsAndRetriesAreCounts) {
  EXPECT_THROW(rayo::spawn<Keeper>({.max_restarts = -2}), rayo::Invalid);
  EXPECT_THROW(rayo::spawn<Keeper>({.max_call_retries = -2}), rayo::Invalid);
  EXPECT_EQ(rayo::spawn<Keeper>({.max_restarts = -1, .max_call_retries = -1}).call<&Keeper::add>().get(), 1);
}

// Else it ends in the middle of them.
TEST_F(ApiTest, AnActorWhoseLastHandleWasInsideAResultEndsAfterItsCalls) {
  auto last = start_keeper();
  (void)rayo::put(1);  // what was let go of is known
  EXPECT_EQ(last.get(), 1);
}

// Else the result goes where no frame carries it, and get() never ends.
TEST_F(ApiTest, ALargeResultComesFromAnActorThatKeepsARef) {
  auto keeper = rayo::spawn<Keeper>();
  const std::vector<rayo::ObjectRef<int64_t>> refs{rayo::put(int64_t{7})};
  for (const int64_t size : {100, 100'000, 3'000'000}) {  // the last is 24 MB
    const auto values = keeper.call<&Keeper::keep>(refs, size).get(std::chrono::seconds(20));
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0), static_cast<double>(size));
  }
}

}  // namespace
