// If this fails, a user's streams lose, double or reorder items, grow without bound, or leave one side waiting for the
// other for ever.
#include <algorithm>
#include <gtest/gtest.h>
#include <stdexcept>
#include <thread>

#include <rayo/rayo.h>

#include "tests/runtime/api/backends.h"

using namespace std::chrono_literals;

namespace {

struct Event {
  int64_t number = 0;
  std::string text;
};

struct Nested {
  std::string name;
  rayo::Stream<int64_t> numbers;
};

// Makes streams; writes in its methods, or from a thread of its own.
struct Source {
  rayo::StreamWriter<Event> events;
  rayo::StreamWriter<int64_t> numbers;
  std::thread helper;
  ~Source() {
    if (helper.joinable()) helper.join();
  }

  rayo::Stream<Event> count(int64_t n) {
    auto [writer, stream] = rayo::make_stream<Event>({.window = 8});
    helper = std::thread([n, to = std::move(writer)]() mutable {
      for (int64_t i = 0; i < n; ++i)
        if (!to.write({i, std::to_string(i)})) return;
    });
    return std::move(stream);
  }
  rayo::Stream<Event> open(uint32_t window) {
    auto [writer, stream] = rayo::make_stream<Event>({.window = window});
    events = std::move(writer);
    return std::move(stream);
  }
  Nested nested(int64_t n) {
    auto [writer, stream] = rayo::make_stream<int64_t>({.window = 4});
    helper = std::thread([n, to = std::move(writer)]() mutable {
      for (int64_t i = 0; i < n; ++i) to.write(i);
    });
    return {.name = "numbers", .numbers = std::move(stream)};
  }
  int write(int n) {
    int taken = 0;
    while (taken < n && events.try_write({taken, "x"})) ++taken;
    return taken;
  }
  bool cancelled() { return events.cancelled(); }
  void close() { events.close(); }
  void fail(const std::string& why) { events.fail(std::out_of_range(why)); }
  void busy(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
  int64_t read_all(rayo::Stream<int64_t> from) {
    int64_t sum = 0;
    for (int64_t n : from) sum += n;
    return sum;
  }
  rayo::Stream<int64_t> pass_on(rayo::Stream<int64_t> stream) { return stream; }
};

TEST_F(ApiTest, AStreamArrivesWholeAndInOrder) {
  auto source = rayo::spawn<Source>();
  auto stream = source.call<&Source::count>(5000).get();
  int64_t expected = 0;
  while (auto event = stream.next()) {
    ASSERT_EQ(event->number, expected);
    ASSERT_EQ(event->text, std::to_string(expected));
    ++expected;
  }
  EXPECT_EQ(expected, 5000);
  EXPECT_FALSE(stream.next()) << "the end stays";
}

TEST_F(ApiTest, ItemsFlowWhileAMethodOfTheMakerRuns) {
  auto source = rayo::spawn<Source>();
  auto stream = source.call<&Source::count>(200).get();
  auto busy = source.call<&Source::busy>(3000);
  size_t items = 0;
  for (const Event& event : stream) items += event.text.size() > 0;
  EXPECT_EQ(items, 200u);
  EXPECT_FALSE(busy.ready()) << "the items waited for the method";
}

TEST_F(ApiTest, AStreamTravelsInsideValuesAndIsPassedOn) {
  auto source = rayo::spawn<Source>();
  Nested nested = source.call<&Source::nested>(100).get();
  EXPECT_EQ(nested.name, "numbers");
  auto reader = rayo::spawn<Source>();
  auto back = reader.call<&Source::pass_on>(nested.numbers).get();
  EXPECT_THROW(nested.numbers.next(), rayo::Invalid);
  auto other = rayo::spawn<Source>();
  EXPECT_EQ(other.call<&Source::read_all>(back).get(), 4950);
}

TEST_F(ApiTest, ADriverWritesWhatAnActorReads) {
  auto reader = rayo::spawn<Source>();
  auto [writer, stream] = rayo::make_stream<int64_t>({.window = 3});
  auto sum = reader.call<&Source::read_all>(stream);
  for (int64_t i = 1; i <= 1000; ++i) ASSERT_TRUE(writer.write(i));
  writer.close();
  EXPECT_EQ(sum.get(), 500500);
}

TEST_F(ApiTest, AStreamMayStayInItsProcess) {
  auto [writer, stream] = rayo::make_stream<std::string>({.window = 2});
  EXPECT_TRUE(writer.try_write("a"));
  EXPECT_TRUE(writer.try_write("b"));
  EXPECT_FALSE(writer.try_write("c")) << "the window is full";
  EXPECT_THROW(writer.write("c", 5ms), rayo::Timeout);
  EXPECT_EQ(stream.next(), "a");
  EXPECT_TRUE(soon([&writer = writer] { return writer.try_write("c"); }));
  writer.close();
  EXPECT_THROW(writer.write("d"), rayo::Invalid);
  EXPECT_EQ(stream.next(), "b");
  EXPECT_EQ(stream.next(), "c");
  EXPECT_FALSE(stream.next());
}

TEST_F(ApiTest, NobodyWritesPastTheWindow) {
  auto source = rayo::spawn<Source>();
  auto stream = source.call<&Source::open>(16).get();
  EXPECT_EQ(source.call<&Source::write>(1000).get(), 16);
  EXPECT_EQ(stream.next()->number, 0);
  for (int i = 1; i < 16; ++i) EXPECT_EQ(stream.next()->number, i);
  EXPECT_THROW(stream.next(5ms), rayo::Timeout);
  EXPECT_TRUE(soon([&] { return source.call<&Source::write>(1).get() == 1; })) << "credit came back";
  EXPECT_TRUE(stream.next(10s));
}

TEST_F(ApiTest, TheBytesOfAWindowAreBounded) {
  auto [writer, stream] = rayo::make_stream<std::string>({.window = 1000, .window_bytes = 100'000});
  const std::string item(40'000, 'x');
  int taken = 0;
  while (taken < 1000 && writer.try_write(item)) ++taken;
  EXPECT_EQ(taken, 3) << "one that is added while fewer bytes than the window wait";
  for (int i = 0; i < taken; ++i) EXPECT_EQ(stream.next()->size(), item.size());
  EXPECT_TRUE(soon([&writer = writer, &item] { return writer.try_write(item); }));
}

TEST_F(ApiTest, AnItemMayBeLargerThanARing) {
  auto reader = rayo::spawn<Source>();
  auto [writer, stream] = rayo::make_stream<std::vector<int64_t>>();
  auto big = std::move(stream);
  std::thread thread([to = std::move(writer)]() mutable {
    for (int i = 1; i <= 3; ++i) to.write(std::vector<int64_t>(300'000, i));
  });
  for (int i = 1; i <= 3; ++i) {
    auto item = big.next();
    ASSERT_TRUE(item);
    EXPECT_EQ(item->size(), 300'000u);
    EXPECT_EQ(item->back(), i);
  }
  thread.join();
  EXPECT_FALSE(big.next());
}

TEST_F(ApiTest, TheReaderGetsWhatTheWriterFailedWith) {
  auto source = rayo::spawn<Source>();
  auto stream = source.call<&Source::open>(8).get();
  source.call<&Source::write>(2).get();
  source.call<&Source::fail>("out of tokens").get();
  EXPECT_TRUE(stream.next());
  EXPECT_TRUE(stream.next()) << "items of before come first";
  try {
    stream.next();
    FAIL() << "nothing was thrown";
  } catch (const rayo::TaskError& error) {
    EXPECT_EQ(error.remote_type(), "std::out_of_range");
    EXPECT_NE(error.text().find("out of tokens"), std::string::npos) << error.text();
  }
}

TEST_F(ApiTest, TheWriterHearsThatNobodyReads) {
  auto source = rayo::spawn<Source>();
  const auto cancelled = [&source] { return source.call<&Source::cancelled>().get(); };
  {
    auto stream = source.call<&Source::open>(8).get();
    source.call<&Source::write>(1).get();
    EXPECT_TRUE(stream.next());
    EXPECT_FALSE(cancelled());
    stream.cancel();
    EXPECT_TRUE(soon(cancelled));
    EXPECT_THROW(stream.next(), rayo::Cancelled);
  }
  {
    auto stream = source.call<&Source::open>(8).get();
    source.call<&Source::write>(1).get();
    EXPECT_TRUE(stream.next());
    EXPECT_FALSE(cancelled());
  }
  EXPECT_TRUE(soon(cancelled)) << "a reader was destroyed";
  EXPECT_EQ(source.call<&Source::write>(1).get(), 0);
}

TEST_F(ApiTest, AStreamThatIsDroppedUnreadIsCancelled) {
  auto source = rayo::spawn<Source>();
  const auto cancelled = [&source] { return source.call<&Source::cancelled>().get(); };
  auto never_decoded = source.call<&Source::open>(8);
  EXPECT_FALSE(cancelled());
  never_decoded = {};
  EXPECT_TRUE(soon(cancelled)) << "its value was never looked at";
  {
    auto never_read = source.call<&Source::open>(8).get();
    EXPECT_FALSE(cancelled());
  }
  EXPECT_TRUE(soon(cancelled));
  auto [writer, stream] = rayo::make_stream<int64_t>();
  stream = {};
  EXPECT_TRUE(writer.cancelled()) << "it never left this process";
}

TEST_F(ApiTest, OneReaderGetsTheItems) {
  auto source = rayo::spawn<Source>();
  auto ref = source.call<&Source::open>(8);
  auto first = ref.get();
  auto second = ref.get();
  source.call<&Source::write>(1).get();
  EXPECT_EQ(first.next()->number, 0);
  EXPECT_THROW(second.next(), rayo::Invalid);
  second = {};
  source.call<&Source::write>(1).get();
  EXPECT_TRUE(first.next(10s)) << "the one that was refused ended it for the other";
}

TEST_F(ApiTest, RefsAndHandlesTravelInsideItems) {
  auto [writer, stream] = rayo::make_stream<rayo::ObjectRef<std::string>>({.window = 4});
  auto local = std::move(stream);
  std::thread thread([to = std::move(writer)]() mutable {
    for (int i = 0; i < 20; ++i) to.write(rayo::put(std::to_string(i)));
  });
  int expected = 0;
  while (auto ref = local.next()) EXPECT_EQ(ref->get(), std::to_string(expected++));
  EXPECT_EQ(expected, 20);
  thread.join();
}

TEST_F(ApiTest, TheDeathOfTheMakerEndsTheStream) {
  auto source = rayo::spawn<Source>();
  auto stream = source.call<&Source::open>(8).get();
  source.call<&Source::write>(2).get();
  EXPECT_TRUE(stream.next());
  rayo::kill(source);
  EXPECT_TRUE(stream.next()) << "what was written before comes first";
  try {
    stream.next();
    FAIL() << "nothing was thrown";
  } catch (const rayo::ActorDied& died) {
    ASSERT_NE(died.death(), nullptr);
    EXPECT_EQ(died.death()->kind, rayo::DeathKind::kKilled);
  }
}

TEST_F(ApiTest, AStreamOfADeadMakerSaysSoToAReaderThatComesLater) {
  auto source = rayo::spawn<Source>();
  auto stream = source.call<&Source::open>(8).get();
  rayo::kill(source);
  EXPECT_THROW(stream.next(), rayo::ActorDied);
}

TEST_F(ApiTest, AWindowOfNothingAndEmptyStreamsAreRefused) {
  EXPECT_THROW(rayo::make_stream<int>({.window = 0}), rayo::Invalid);
  EXPECT_THROW(rayo::Stream<int>().next(), rayo::Invalid);
  EXPECT_THROW(rayo::StreamWriter<int>().write(1), rayo::Invalid);
}

}  // namespace
