// If this fails, values arrive changed, or bytes from elsewhere can bring a process down.
#include <deque>
#include <gtest/gtest.h>
#include <list>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include <rayo/rayo.h>

namespace {

enum class Colour : uint8_t { kRed, kBlue = 7 };

struct Point {
  int x = 0;
  double y = 0;
  bool operator==(const Point&) const = default;
};
struct Line {
  int x = 0;
  double y = 0;
};
struct Empty {
  bool operator==(const Empty&) const = default;
};
struct Tree {
  int value = 0;
  std::vector<Tree> children;
  std::unique_ptr<Tree> next;
};
struct Everything {
  bool yes = true;
  char letter = 'r';
  int8_t small = -128;
  uint64_t large = UINT64_MAX;
  int64_t low = INT64_MIN;
  float single = 1.5f;
  double real = -1e300;
  Colour colour = Colour::kBlue;
  std::string text = "Grüße";
  std::vector<std::byte> bytes{std::byte{1}, std::byte{255}};
  std::vector<uint8_t> octets{0, 7};
  std::vector<double> reals{1, 2.5};
  std::vector<int16_t> shorts{-1, 300};
  std::vector<bool> bits{true, false};
  std::array<float, 3> fixed{1, 2, 3};
  std::array<Point, 2> points{{{1, 2}, {3, 4}}};
  std::list<std::string> words;
  std::deque<int> deque{1, 2};
  std::map<std::string, Point> by_name;
  std::unordered_map<int, std::string> by_number;
  std::set<int> set{3, 1};
  std::unordered_set<std::string> unordered;
  std::optional<int> none;
  std::optional<std::optional<int>> some_none{std::in_place, std::nullopt};
  std::variant<int, std::string, Point> one_of{std::string("v")};
  std::pair<int, std::string> pair{1, "2"};
  std::tuple<int, Empty, bool> tuple{9, {}, true};
  std::chrono::milliseconds span{1500};
  std::chrono::sys_time<std::chrono::microseconds> at{std::chrono::microseconds(17)};
  std::monostate nothing;
  rayo::ActorId id{1, 2};
  bool operator==(const Everything&) const = default;
};

Everything everything() {
  Everything all;
  all.words = {"a", ""};
  all.by_name = {{"p", {5, 6}}};
  all.by_number = {{-4, "x"}};
  all.unordered = {"q"};
  return all;
}

class Money {
 public:
  explicit Money(int64_t cents) : cents_(cents) {}
  int64_t cents() const { return cents_; }

 private:
  int64_t cents_;
};

}  // namespace

template <>
struct rayo::Codec<Money> {
  static void encode(rayo::Encoder& out, const Money& money) { rayo::encode(out, money.cents()); }
  static Money decode(rayo::Decoder& in) { return Money(rayo::decode<int64_t>(in)); }
};

namespace {

struct Wallet {
  std::vector<Money> notes;
};
struct WithPointer {
  int* p;
};
struct Base {
  int a;
};
struct Derived : Base {
  int b;
};

static_assert(rayo::Value<Everything> && rayo::Value<Wallet> && rayo::Value<Tree>);
static_assert(!rayo::Value<WithPointer> && !rayo::Value<Derived> && !rayo::Value<int*> &&
              !rayo::Value<std::string_view>);
static_assert(!rayo::Value<std::unique_ptr<int[]>> && !rayo::Value<std::vector<std::shared_ptr<int>>> &&
              !rayo::Value<long double>);

std::vector<std::byte> bytes_of(const auto& value) {
  rayo::Encoder out;
  rayo::encode(out, value);
  return {out.view().begin(), out.view().end()};
}

std::string hex_of(const auto& value) {
  std::string text;
  for (std::byte b : bytes_of(value)) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(b));
    text += digits;
  }
  return text;
}

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

template <class T>
T read(std::span<const std::byte> bytes) {
  rayo::Decoder in(bytes, "T");
  T value = rayo::decode<T>(in);
  in.finish();
  return value;
}

template <class T>
T round_trip(const T& value) {
  return read<T>(bytes_of(value));
}

TEST(CodecTest, EverythingComesBackAsItWas) {
  EXPECT_EQ(round_trip(everything()), everything());
  Tree tree{1, {}, std::make_unique<Tree>(Tree{2, {}, nullptr})};
  tree.children.push_back(Tree{3, {}, nullptr});
  Tree back = round_trip(tree);
  EXPECT_EQ(back.next->value, 2);
  EXPECT_EQ(back.children.at(0).value, 3);
  Wallet wallet;
  wallet.notes.emplace_back(500);
  EXPECT_EQ(round_trip(wallet).notes.at(0).cents(), 500);
  EXPECT_EQ(round_trip(std::string(100'000, 'x')).size(), 100'000u);
}

// RFC 8949, appendix A: the rows whose items Rayo writes.
TEST(CodecTest, ItemsAreThoseOfTheStandard) {
  EXPECT_EQ(hex_of(0), "00");
  EXPECT_EQ(hex_of(23), "17");
  EXPECT_EQ(hex_of(24), "1818");
  EXPECT_EQ(hex_of(1000), "1903e8");
  EXPECT_EQ(hex_of(1000000), "1a000f4240");
  EXPECT_EQ(hex_of(int64_t{1000000000000}), "1b000000e8d4a51000");
  EXPECT_EQ(hex_of(UINT64_MAX), "1bffffffffffffffff");
  EXPECT_EQ(hex_of(-1), "20");
  EXPECT_EQ(hex_of(-1000), "3903e7");
  EXPECT_EQ(hex_of(100000.0f), "fa47c35000");
  EXPECT_EQ(hex_of(1.1), "fb3ff199999999999a");
  EXPECT_EQ(hex_of(-4.1), "fbc010666666666666");
  EXPECT_EQ(hex_of(true), "f5");
  EXPECT_EQ(hex_of(std::optional<int>()), "f6");
  EXPECT_EQ(hex_of(std::string("IETF")), "6449455446");
  EXPECT_EQ(hex_of(std::vector<std::byte>{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}}), "4401020304");
  EXPECT_EQ(hex_of(std::vector<std::string>{"a", "b"}), "8261616162");
  EXPECT_EQ(hex_of(std::map<std::string, int>{{"a", 1}}), "a1616101");
  EXPECT_EQ(hex_of(std::vector<uint16_t>{1, 2}), "d8454401000200") << "RFC 8746, little-endian";
  EXPECT_EQ(hex_of(std::vector<double>{1.0}), "d85648000000000000f03f");
}

TEST(CodecTest, OtherWritersSpellingsAreRead) {
  EXPECT_EQ(read<std::vector<double>>(from_hex("83010203")), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(read<double>(from_hex("f93e00")), 1.5);
  EXPECT_EQ(read<double>(from_hex("f90001")), 5.960464477539063e-8);
  EXPECT_TRUE(std::isinf(read<double>(from_hex("f97c00"))));
  EXPECT_EQ(read<double>(from_hex("3903e7")), -1000);
  EXPECT_EQ(read<int>(from_hex("1b0000000000000005")), 5);
}

TEST(CodecTest, AMismatchNamesBothTypes) {
  try {
    read<Point>(bytes_of(Line{1, 2}));
    FAIL() << "nothing was thrown";
  } catch (const rayo::TypeMismatch& error) {
    EXPECT_NE(error.text().find("Point"), std::string::npos) << error.text();
    EXPECT_NE(error.text().find("Line"), std::string::npos) << error.text();
  }
  try {
    const auto bytes = bytes_of(std::string("x"));
    rayo::Decoder in(bytes, "int");
    FAIL() << rayo::decode<int>(in);
  } catch (const rayo::TypeMismatch& error) {
    EXPECT_NE(error.text().find("'int'"), std::string::npos) << error.text();
    EXPECT_NE(error.text().find("text"), std::string::npos) << error.text();
  }
  EXPECT_THROW(read<int8_t>(bytes_of(128)), rayo::TypeMismatch);
  EXPECT_THROW(read<uint32_t>(bytes_of(-1)), rayo::TypeMismatch);
  EXPECT_THROW(read<int64_t>(bytes_of(UINT64_MAX)), rayo::TypeMismatch);
  EXPECT_THROW(read<int>(bytes_of(1.5)), rayo::TypeMismatch);
  EXPECT_THROW((read<std::array<int, 3>>(bytes_of(std::array<int, 2>{1, 2}))), rayo::TypeMismatch);
  EXPECT_THROW((read<std::variant<int, bool>>(bytes_of(std::variant<int, bool, char>{'x'}))), rayo::TypeMismatch);
  EXPECT_THROW(read<Point>(bytes_of(std::vector<std::string>{"a", "b", "c"})), rayo::TypeMismatch);
}

TEST(CodecTest, MalformedBytesAreRefused) {
  for (const char* hex : {"",
                          "18",
                          "1b00",
                          "1c",
                          "1f",
                          "5f",
                          "9f",
                          "ff",
                          "5b7fffffffffffffff",
                          "9b7fffffffffffffff",
                          "bb7fffffffffffffff",
                          "9a00ffffff",
                          "62e2",
                          "d856",
                          "d85647",
                          "d856430102",
                          "f8",
                          "c0",
                          "8201",
                          "0101"}) {
    const auto bytes = from_hex(hex);
    EXPECT_THROW(read<Everything>(bytes), rayo::TypeMismatch) << hex;
    EXPECT_THROW(read<std::vector<double>>(bytes), rayo::TypeMismatch) << hex;
    EXPECT_THROW(read<std::vector<std::string>>(bytes), rayo::TypeMismatch) << hex;
    EXPECT_THROW((read<std::map<std::string, int>>(bytes)), rayo::TypeMismatch) << hex;
    EXPECT_THROW(read<std::string>(bytes), rayo::TypeMismatch) << hex;
  }
}

TEST(CodecTest, DepthHasALimitBothWays) {
  Tree tree;
  for (int i = 0; i < 100; ++i) {
    Tree outer{i, {}, nullptr};
    outer.children.push_back(std::move(tree));
    tree = std::move(outer);
  }
  EXPECT_THROW(bytes_of(tree), rayo::Invalid);
  std::vector<std::byte> nested(10'000, std::byte{0x81});
  EXPECT_THROW((read<std::vector<std::vector<std::vector<std::string>>>>(nested)), rayo::TypeMismatch);
}

// Every value that comes out of changed bytes is a value; everything else is TypeMismatch. Sanitizers watch.
TEST(CodecTest, ChangedBytesNeverDoHarm) {
  const auto good = bytes_of(everything());
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = good;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    try {
      read<Everything>(bytes);
    } catch (const rayo::TypeMismatch&) {
      ++refused;
    } catch (const rayo::Unavailable&) {  // a ref or handle appeared: there is no session here
    }
  }
  EXPECT_GT(refused, 10'000);
}

}  // namespace
