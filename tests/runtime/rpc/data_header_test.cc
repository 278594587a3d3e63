// If these fail, a stranger's connection is served, or a node's own is refused.
#include "runtime/rpc/data_header.h"

#include <gtest/gtest.h>

#include <rayo/id.h>

#include "tests/testkit/manual_clock.h"

namespace rayo::rpc {
namespace {

using std::chrono::minutes;

std::array<uint8_t, 16> some_target() {
  std::array<uint8_t, 16> target;
  for (size_t i = 0; i < target.size(); ++i) target[i] = static_cast<uint8_t>(i + 1);
  return target;
}

TEST(DataHeader, HasTheBytesOfTheWireDocument) {
  DataHeader header{LinkKind::kData, true, some_target(), {}, {}};
  header.nonce.fill(0x77);
  header.tag.fill(0x99);
  DataHeaderBytes bytes = encode(header);
  const std::array<uint8_t, 8> front = {'R', 'A', 'Y', 'O', 1, 3, 1, 0};
  EXPECT_TRUE(std::equal(front.begin(), front.end(), bytes.begin()));
  EXPECT_EQ(bytes[8], 1);
  EXPECT_EQ(bytes[23], 16);
  EXPECT_EQ(bytes[24], 0x77);
  EXPECT_EQ(bytes[39], 0x77);
  EXPECT_EQ(bytes[40], 0x99);
  EXPECT_EQ(bytes[63], 0x99);
  EXPECT_NE(bytes[0], kTlsFirstByte) << "the acceptor tells our connections from gRPC's by the first byte";
}

TEST(DataHeader, ReadsBackWhatWasSignedAndVerifies) {
  LinkKeys keys = LinkKeys::of_data(random_secret());
  for (LinkKind kind : {LinkKind::kJoin, LinkKind::kCall, LinkKind::kData, LinkKind::kDriver}) {
    DataHeader header = make_data_header(kind, true, some_target(), keys);
    auto read = parse_data_header(encode(header));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->kind, kind);
    EXPECT_EQ(read->target, header.target);
    EXPECT_EQ(read->nonce, header.nonce);
    EXPECT_TRUE(verify(*read, keys));
    EXPECT_FALSE(verify(*read, LinkKeys::of_data(random_secret())));
  }
}

TEST(DataHeader, ATokensSecretIsNoDataSecret) {
  Secret secret = random_secret();
  DataHeader header = make_data_header(LinkKind::kCall, true, {}, LinkKeys::of_data(secret));
  EXPECT_FALSE(verify(header, LinkKeys::of_join(secret)));
}

TEST(DataHeader, EveryFlippedBitIsSeen) {
  LinkKeys keys = LinkKeys::of_data(random_secret());
  DataHeaderBytes good = encode(make_data_header(LinkKind::kCall, true, some_target(), keys));
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    DataHeaderBytes bytes = good;
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    auto header = parse_data_header(bytes);
    EXPECT_FALSE(header && verify(*header, keys)) << "bit " << bit;
  }
}

TEST(DataHeader, RefusesWhatItDoesNotKnow) {
  LinkKeys keys = LinkKeys::of_data(random_secret());
  DataHeaderBytes good = encode(make_data_header(LinkKind::kCall, true, {}, keys));
  auto with = [&](size_t at, uint8_t value) {
    DataHeaderBytes bytes = good;
    bytes[at] = value;
    return parse_data_header(bytes).has_value();
  };
  EXPECT_TRUE(with(0, 'R'));
  EXPECT_FALSE(with(0, kTlsFirstByte));
  EXPECT_FALSE(with(4, 2)) << "version";
  EXPECT_FALSE(with(5, 0)) << "kind";
  EXPECT_FALSE(with(5, 5)) << "kind";
  EXPECT_FALSE(with(6, 3)) << "flags";
  EXPECT_FALSE(with(7, 1)) << "reserved";
}

TEST(DataHeader, AJoinOrARemoteDriverIsNeverInClear) {
  LinkKeys keys = LinkKeys::of_data(random_secret());
  EXPECT_FALSE(parse_data_header(encode(make_data_header(LinkKind::kJoin, false, {}, keys))));
  EXPECT_FALSE(parse_data_header(encode(make_data_header(LinkKind::kDriver, false, {}, keys))));
  EXPECT_TRUE(parse_data_header(encode(make_data_header(LinkKind::kCall, false, {}, keys))));
}

TEST(DataHeader, AnIdSurvivesTheWire) {
  ProcessId id{0x1122334455667788, 0x99aabbccddeeff00};
  auto bytes = id_bytes(id);
  EXPECT_EQ(bytes[0], 0x88);
  EXPECT_EQ(bytes[15], 0x99);
  EXPECT_EQ(id_from_bytes<ProcessId>(bytes), id);
}

TEST(NonceCache, RefusesAReplayForAsLongAsItPromises) {
  testkit::ManualClock clock;
  NonceCache cache(NonceCache::kDefaultBudget, minutes(10));
  Nonce nonce = random_nonce();
  EXPECT_TRUE(cache.admit(nonce, clock.now()));
  for (int passed = 0; passed <= 10; ++passed) {
    EXPECT_FALSE(cache.admit(nonce, clock.now())) << passed << " minutes later";
    EXPECT_TRUE(cache.admit(random_nonce(), clock.now()));
    clock.advance(minutes(1));
  }
}

TEST(NonceCache, ForgetsInTime) {
  testkit::ManualClock clock;
  NonceCache cache(NonceCache::kDefaultBudget, minutes(10));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(cache.admit(random_nonce(), clock.now()));
  clock.advance(minutes(21));
  EXPECT_TRUE(cache.admit(random_nonce(), clock.now()));
  EXPECT_EQ(cache.bytes(), 64u) << "an idle hour's nonces are gone at the next one";
}

TEST(NonceCache, KeepsToItsBudgetAndForgetsTheOldestFirst) {
  testkit::ManualClock clock;
  constexpr size_t kBudget = 64 * 100;
  NonceCache cache(kBudget, minutes(10));
  std::vector<Nonce> shown;
  for (int i = 0; i < 1000; ++i) {
    shown.push_back(random_nonce());
    EXPECT_TRUE(cache.admit(shown.back(), clock.now()));
    EXPECT_LE(cache.bytes(), kBudget);
  }
  for (size_t i = shown.size() - 50; i < shown.size(); ++i) EXPECT_FALSE(cache.admit(shown[i], clock.now()));
  EXPECT_TRUE(cache.admit(shown.front(), clock.now()));
}

}  // namespace
}  // namespace rayo::rpc
