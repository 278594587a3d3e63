// Encoder and Decoder: the items of CBOR (RFC 8949), one by one. Public through <rayo/codec.h>.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <rayo/internal/backend.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {

namespace internal {

enum class Major : uint8_t { kUnsigned, kNegative, kBytes, kText, kArray, kMap, kTag, kSimple };

inline constexpr int kMaxDepth = 64;
inline constexpr uint64_t kMaxItems = 1ull << 32;  // of one array or map

// Private tags: an argument that is a ref (backend.h), a ref, an actor handle and a stream inside a value.
inline constexpr uint64_t kInnerRefTag = 0x5242;
inline constexpr uint64_t kActorTag = 0x5243;
inline constexpr uint64_t kStreamTag = 0x5244;
// In front of a value that is portable: its aggregates are arrays of their members alone, without the hash of a shape
// that only C++ knows. So travel the arguments and results of calls by name.
inline constexpr uint64_t kPortableTag = 0x5253;
inline constexpr char kPortableHead[] = {'\xd9', 'R', 'S'};  // the tag as it is written

// Calls into runtime/api: a block of memory that this thread keeps for its next Encoder.
struct Block {
  std::byte* begin = nullptr;
  size_t capacity = 0;
};
Block take_block();
void give_block(Block block);
// Moves to a block with room for `needed` bytes; throws std::bad_alloc.
void grow_block(Block& block, size_t used, size_t needed);

constexpr uint64_t to_big_endian(uint64_t word) {
  return std::endian::native == std::endian::big ? word : __builtin_bswap64(word);
}

}  // namespace internal

// Appends items to a buffer. Definite lengths only, each head in its shortest form. What array() and map()
// announce must follow.
class Encoder {
 public:
  Encoder() : block_(internal::take_block()), at_(block_.begin) {}
  ~Encoder() {
    internal::give_block(block_);
    if (counts_ != nullptr) [[unlikely]]
      let_go();
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  void null() { byte(0xf6); }
  void boolean(bool yes) { byte(yes ? 0xf5 : 0xf4); }
  void unsigned_integer(uint64_t number) { head(internal::Major::kUnsigned, number); }
  void integer(int64_t number) {
    if (number >= 0) return head(internal::Major::kUnsigned, static_cast<uint64_t>(number));
    head(internal::Major::kNegative, ~static_cast<uint64_t>(number));
  }
  void real(float number) { fixed<4>(0xfa, uint64_t{std::bit_cast<uint32_t>(number)} << 32); }
  void real(double number) { fixed<8>(0xfb, std::bit_cast<uint64_t>(number)); }
  void text(std::string_view text) {
    head(internal::Major::kText, text.size());
    raw(text.data(), text.size());
  }
  void bytes(std::span<const std::byte> bytes) {
    head(internal::Major::kBytes, bytes.size());
    raw(bytes.data(), bytes.size());
  }
  void array(uint64_t items) { head(internal::Major::kArray, items); }
  void map(uint64_t pairs) { head(internal::Major::kMap, pairs); }
  void tag(uint64_t number) { head(internal::Major::kTag, number); }

  // Bytes that are items already.
  void raw(const void* from, size_t size) {
    room(size);
    if (size != 0) std::memcpy(at_, from, size);
    at_ += size;
  }

  // Around each level of nesting; Invalid beyond the limit.
  void enter() {
    if (++depth_ > internal::kMaxDepth) [[unlikely]]
      too_deep();
  }
  void leave() { --depth_; }

  // Whether aggregates are written without the hash of their shape.
  bool portable() const { return portable_; }
  void set_portable(bool yes) { portable_ = yes; }

  // A ref or an actor handle inside the value: counted until this encoder ends, since what was encoded may be made for
  // that alone, and be gone before the value has left.
  void inner_ref(const internal::ObjectHandle& object);
  void inner_actor(const ActorId& actor);

  std::span<const std::byte> view() const { return {block_.begin, at_}; }
  std::span<const internal::ObjectHandle> inner_refs() const { return refs_; }
  std::span<const ActorId> inner_actors() const { return actors_; }

 private:
  void room(size_t size) {
    if (static_cast<size_t>(block_.begin + block_.capacity - at_) < size) [[unlikely]] {
      const size_t used = static_cast<size_t>(at_ - block_.begin);
      internal::grow_block(block_, used, size);
      at_ = block_.begin + used;
    }
  }
  void byte(unsigned value) {
    room(1);
    *at_++ = static_cast<std::byte>(value);
  }
  // `word` holds its bytes at the high end.
  template <size_t kBytes>
  void fixed(unsigned first, uint64_t word) {
    room(9);
    *at_ = static_cast<std::byte>(first);
    const uint64_t big = internal::to_big_endian(word);
    std::memcpy(at_ + 1, &big, 8);
    at_ += 1 + kBytes;
  }
  void head(internal::Major major, uint64_t value) {
    const unsigned high = static_cast<unsigned>(major) << 5;
    if (value < 24) return byte(high | static_cast<unsigned>(value));
    if (value <= 0xff) return fixed<1>(high | 24, value << 56);
    if (value <= 0xffff) return fixed<2>(high | 25, value << 48);
    if (value <= 0xffffffff) return fixed<4>(high | 26, value << 32);
    fixed<8>(high | 27, value);
  }
  [[noreturn]] static void too_deep();
  void let_go();

  internal::Block block_;
  std::byte* at_;
  int depth_ = 0;
  bool portable_ = false;
  internal::Backend* counts_ = nullptr;  // refs_ and actors_; null: there are none
  std::vector<internal::ObjectHandle> refs_;
  std::vector<ActorId> actors_;
};

// Reads items from bytes that it does not own and does not trust. Each function reads the next item and
// throws TypeMismatch where that is another one or ends too early; definite lengths only. Views stay valid as
// long as the bytes.
class Decoder {
 public:
  // `target` names, for errors, the type that is read.
  explicit Decoder(std::span<const std::byte> bytes, std::string_view target = {})
      : begin_(bytes.data()), at_(bytes.data()), end_(bytes.data() + bytes.size()), target_(target) {}

  void null() {
    if (!take_simple(0xf6)) mismatch("null");
  }
  bool boolean() {
    if (take_simple(0xf5)) return true;
    if (!take_simple(0xf4)) mismatch("a bool");
    return false;
  }
  uint64_t unsigned_integer();
  int64_t integer();
  // Also from integers; a double read as float is rounded.
  double real();
  std::string_view text();
  std::span<const std::byte> bytes();
  // The number of items or pairs that follow; never more than the bytes that are left could hold.
  uint64_t array();
  uint64_t map();
  uint64_t tag();

  // True, and read, where the next item is null; a tag of that number.
  bool take_null() { return take_simple(0xf6); }
  bool take_tag(uint64_t number);
  internal::Major peek() const;  // kSimple at the end
  // An array of exactly so many items.
  void array_of(uint64_t items);
  // Reads `size` bytes where they are exactly these.
  bool take_raw(const void* expected, size_t size) {
    if (left() < size || std::memcmp(at_, expected, size) != 0) return false;
    at_ += size;
    return true;
  }

  void enter() {
    if (++depth_ > internal::kMaxDepth) [[unlikely]]
      mismatch("at most 64 levels");
  }
  void leave() { --depth_; }

  // Whether aggregates come without the hash of their shape.
  bool portable() const { return portable_; }
  void set_portable(bool yes) { portable_ = yes; }

  size_t left() const { return static_cast<size_t>(end_ - at_); }
  std::string_view target() const { return target_; }
  void set_target(std::string_view target) { target_ = target; }
  size_t position() const { return static_cast<size_t>(at_ - begin_); }
  // TypeMismatch where bytes are left.
  void finish() const;

  // Throws TypeMismatch: "a value does not fit 'Order': expected `what`, found text (byte 12)".
  [[noreturn]] void mismatch(std::string_view what) const;
  // The same of a number that was read and is too large or too small for its type.
  [[noreturn]] void out_of_range(int64_t number) const;
  [[noreturn]] void out_of_range(uint64_t number) const;

 private:
  // The number in the head of the next item, which is read: the item must be of this kind.
  uint64_t head_of(internal::Major major, std::string_view what);
  std::span<const std::byte> string_of(internal::Major major, std::string_view what);
  bool take_simple(unsigned value) {
    if (at_ == end_ || *at_ != static_cast<std::byte>(value)) return false;
    ++at_;
    return true;
  }

  const std::byte* begin_;
  const std::byte* at_;
  const std::byte* end_;
  std::string_view target_;
  int depth_ = 0;
  bool portable_ = false;
};

// One level of nesting of an Encoder or Decoder.
template <class Coder>
class Nesting {
 public:
  explicit Nesting(Coder& coder) : coder_(coder) { coder_.enter(); }
  ~Nesting() { coder_.leave(); }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Coder& coder_;
};

}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
