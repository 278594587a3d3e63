// Encoder and Decoder, what is not inline: memory, reading, and the words of TypeMismatch.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>

#include <rayo/error.h>
#include <rayo/internal/cbor.h>
#include <rayo/internal/shape.h>
#include <rayo/internal/value_codec.h>

#include "runtime/api/current.h"
#include "runtime/base/text.h"

namespace rayo {
inline namespace v0 {

using internal::Major;

namespace internal {
namespace {

constexpr size_t kFirstBlock = 4096;
constexpr size_t kKeptBlock = 1 << 20;  // a thread keeps no more than this between calls

struct Spare {
  Block block;
  ~Spare() { std::free(block.begin); }
};
thread_local Spare t_spare;

}  // namespace

Block take_block() { return std::exchange(t_spare.block, {}); }

void give_block(Block block) {
  if (t_spare.block.begin == nullptr && block.capacity <= kKeptBlock) {
    t_spare.block = block;
  } else {
    std::free(block.begin);
  }
}

void grow_block(Block& block, size_t used, size_t needed) {
  const size_t capacity = std::max({kFirstBlock, block.capacity * 2, used + needed + 9});
  void* moved = std::realloc(block.begin, capacity);
  if (moved == nullptr) throw std::bad_alloc();
  block = {static_cast<std::byte*>(moved), capacity};
}

void other_shape(const Decoder& in, const char* expected) {
  Decoder look = in;
  std::string found = "a value of another kind";
  if (look.peek() == Major::kArray && look.array() > 0 && look.peek() == Major::kUnsigned) {
    const uint64_t hash = look.unsigned_integer();
    const char* name = find_shape(hash);
    if (name == nullptr)
      found = base::cat("a type that this program does not use, or another version of it");
    else if (std::string_view(name) == expected)
      found = base::cat("another '", name, "' (its members differ)");
    else
      found = base::cat("a '", name, "'");
    throw TypeMismatch({.kind = ErrorKind::kTypeMismatch,
                        .text = base::cat("a value does not fit '", expected, "': it is ", found),
                        .next_step = "ask for the type that was put in; both ends must run the same program"});
  }
  look.mismatch(base::cat("a '", expected, "'"));
}

}  // namespace internal

void Encoder::too_deep() {
  throw Invalid({.kind = ErrorKind::kInvalid,
                 .text = "a value cannot travel: it is nested more than 64 levels deep",
                 .next_step = "flatten it: keep the nodes in a vector and refer to them by index"});
}

void Encoder::inner_ref(const internal::ObjectHandle& object) {
  counts_ = &internal::backend();
  refs_.push_back(object);
  counts_->retain(object);
}

void Encoder::inner_actor(const ActorId& actor) {
  counts_ = &internal::backend();
  actors_.push_back(actor);
  counts_->retain_actor(actor);
}

void Encoder::let_go() {
  if (counts_ != api::current_backend()) return;  // its session has ended
  for (const internal::ObjectHandle& object : refs_) counts_->release(object);
  for (const ActorId& actor : actors_) counts_->release_actor(actor);
}

namespace {

const char* kind_name(std::byte first) {
  static constexpr const char* kNames[] = {"an integer", "a negative integer", "bytes", "text", "an array", "a map",
                                           "a tag",      "a simple value"};
  const unsigned value = static_cast<unsigned>(first);
  if (value == 0xf4 || value == 0xf5) return "a bool";
  if (value == 0xf6) return "null";
  if (value == 0xf9 || value == 0xfa || value == 0xfb) return "a floating-point number";
  return kNames[value >> 5];
}

// CBOR tag 0x5250 (python_bindings/native/value.h).
constexpr std::byte kPickled[] = {std::byte{0xd9}, std::byte{0x52}, std::byte{0x50}};

std::string what_is(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "the end";
  if (bytes.size() >= sizeof kPickled && std::equal(std::begin(kPickled), std::end(kPickled), bytes.begin()))
    return "a value that Python has pickled: pass it itself, not by put()";
  if (bytes.size() > 1 && bytes[0] == std::byte{0xd8} && bytes[1] >= std::byte{64} && bytes[1] < std::byte{88})
    return "numbers of another type";
  return kind_name(bytes[0]);
}

double half_to_double(uint64_t half) {
  const int exponent = static_cast<int>(half >> 10) & 31;
  const double mantissa = static_cast<double>(half & 1023);
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa == 0 ? std::numeric_limits<double>::infinity()
                                                   : std::numeric_limits<double>::quiet_NaN())
                                  : std::ldexp(mantissa + 1024, exponent - 25);
  return (half & 0x8000) != 0 ? -value : value;
}

}  // namespace

void Decoder::mismatch(std::string_view what) const {
  const std::string_view target = target_.empty() ? std::string_view("what is asked for") : target_;
  throw TypeMismatch({.kind = ErrorKind::kTypeMismatch,
                      .text = base::cat("a value does not fit '", target, "': expected ", what, ", found ",
                                        what_is({at_, end_}), " (byte ", position(), ")"),
                      .next_step = "ask for the type that was put in; both ends must run the same program"});
}

namespace {
[[noreturn]] void throw_out_of_range(std::string_view target, const std::string& number) {
  throw TypeMismatch({.kind = ErrorKind::kTypeMismatch,
                      .text = base::cat("a value does not fit '", target, "': ", number, " is out of its range")});
}
}  // namespace

void Decoder::out_of_range(int64_t number) const { throw_out_of_range(target_, std::to_string(number)); }

void Decoder::out_of_range(uint64_t number) const { throw_out_of_range(target_, std::to_string(number)); }

void Decoder::finish() const {
  if (at_ != end_) mismatch("the end");
}

internal::Major Decoder::peek() const {
  return at_ == end_ ? Major::kSimple : static_cast<Major>(static_cast<unsigned>(*at_) >> 5);
}

uint64_t Decoder::head_of(Major major, std::string_view what) {
  if (at_ == end_ || static_cast<unsigned>(*at_) >> 5 != static_cast<unsigned>(major)) mismatch(what);
  const unsigned info = static_cast<unsigned>(*at_) & 31;
  if (info < 24) {
    ++at_;
    return info;
  }
  if (info > 27) mismatch(what);  // indefinite lengths and reserved heads are not ours
  const size_t size = size_t{1} << (info - 24);
  if (left() < 1 + size) mismatch(what);
  uint64_t value = 0;
  for (size_t i = 1; i <= size; ++i) value = value << 8 | static_cast<uint64_t>(at_[i]);
  at_ += 1 + size;
  return value;
}

uint64_t Decoder::unsigned_integer() { return head_of(Major::kUnsigned, "an integer of at least 0"); }

int64_t Decoder::integer() {
  const Decoder start = *this;
  const bool negative = peek() == Major::kNegative;
  const uint64_t value = head_of(negative ? Major::kNegative : Major::kUnsigned, "an integer");
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    start.mismatch("an integer of 64 bits with sign");
  return negative ? ~static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

double Decoder::real() {
  if (peek() == Major::kUnsigned) return static_cast<double>(unsigned_integer());
  if (peek() == Major::kNegative) return -1.0 - static_cast<double>(head_of(Major::kNegative, "a number"));
  const unsigned info = at_ == end_ ? 0 : static_cast<unsigned>(*at_) & 31;
  if (info < 25 || info > 27) mismatch("a number");
  const uint64_t bits = head_of(Major::kSimple, "a number");
  if (info == 25) return half_to_double(bits);
  if (info == 26) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return std::bit_cast<double>(bits);
}

std::span<const std::byte> Decoder::string_of(Major major, std::string_view what) {
  const Decoder start = *this;
  const uint64_t size = head_of(major, what);
  if (size > left()) start.mismatch(base::cat(what, " that is all there"));
  const std::byte* begin = at_;
  at_ += size;
  return {begin, at_};
}

std::string_view Decoder::text() {
  const auto text = string_of(Major::kText, "text");
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

std::span<const std::byte> Decoder::bytes() { return string_of(Major::kBytes, "bytes"); }

uint64_t Decoder::array() {
  const Decoder start = *this;
  const uint64_t items = head_of(Major::kArray, "an array");
  if (items > left() || items > internal::kMaxItems) start.mismatch("an array that is all there");
  return items;
}

uint64_t Decoder::map() {
  const Decoder start = *this;
  const uint64_t pairs = head_of(Major::kMap, "a map");
  if (pairs > left() / 2 || pairs > internal::kMaxItems) start.mismatch("a map that is all there");
  return pairs;
}

uint64_t Decoder::tag() { return head_of(Major::kTag, "a tag"); }

bool Decoder::take_tag(uint64_t number) {
  if (peek() != Major::kTag) return false;
  const Decoder start = *this;
  if (tag() == number) return true;
  *this = start;
  return false;
}

void Decoder::array_of(uint64_t items) {
  const Decoder start = *this;
  if (array() != items) start.mismatch(base::cat("an array of ", items));
}

}  // namespace v0
}  // namespace rayo
