#include "runtime/worker/call_body.h"

#include <cstring>

namespace rayo::worker {

static_assert(sizeof(ObjectId) == 24 && sizeof(ActorId) == 16, "ids are copied as they lie in memory");

void BodyWriter::put(const void* from, size_t bytes) {
  const auto* start = static_cast<const std::byte*>(from);
  bytes_.insert(bytes_.end(), start, start + bytes);
}

void BodyWriter::head(uint32_t first, uint32_t second) {
  const uint32_t words[2] = {first, second};
  put(words, sizeof words);
}

void BodyWriter::refs(std::span<const ObjectId> ids, uint32_t arguments) {
  if (ids.empty()) return;
  flags_ |= rpc::kFlagRefs;
  head(static_cast<uint32_t>(ids.size()), arguments);
  put(ids.data(), ids.size_bytes());
}

void BodyWriter::actors(std::span<const ActorId> ids) {
  if (ids.empty()) return;
  flags_ |= rpc::kFlagActors;
  head(static_cast<uint32_t>(ids.size()), 0);
  put(ids.data(), ids.size_bytes());
}

void BodyWriter::values(std::span<const InlineValue> values) {
  if (values.empty()) return;
  flags_ |= rpc::kFlagValues;
  head(static_cast<uint32_t>(values.size()), 0);
  for (const InlineValue& value : values) {
    head(value.index, static_cast<uint32_t>(value.bytes.size()));
    put(value.bytes.data(), value.bytes.size());
    bytes_.resize((bytes_.size() + 7) & ~size_t{7});
  }
}

namespace {

class Cursor {
 public:
  explicit Cursor(ByteView left) : left_(left) {}

  bool head(uint32_t& first, uint32_t& second) {
    ByteView bytes;
    if (!take(8, bytes)) return false;
    std::memcpy(&first, bytes.data(), 4);
    std::memcpy(&second, bytes.data() + 4, 4);
    return true;
  }
  bool take(size_t count, ByteView& out) {
    if (count > left_.size()) return false;
    out = left_.first(count);
    left_ = left_.subspan(count);
    return true;
  }
  template <class T>
  bool array(uint32_t count, std::vector<T>& out) {
    ByteView bytes;
    if (count > left_.size() / sizeof(T) || !take(count * sizeof(T), bytes)) return false;
    out.resize(count);
    if (count != 0) std::memcpy(out.data(), bytes.data(), bytes.size());
    return true;
  }
  ByteView left() const { return left_; }

 private:
  ByteView left_;
};

bool read_values(Cursor& cursor, uint32_t arguments, std::vector<InlineValue>& out) {
  uint32_t count, zero;
  if (!cursor.head(count, zero) || count > arguments) return false;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t index, length;
    ByteView bytes;
    if (!cursor.head(index, length) || index >= arguments) return false;
    if (!cursor.take((size_t{length} + 7) & ~size_t{7}, bytes)) return false;
    out.push_back({index, bytes.first(length)});
  }
  return true;
}

}  // namespace

std::optional<BodyView> read_body(uint16_t flags, ByteView body) {
  BodyView view;
  Cursor cursor(body);
  uint32_t count, second;
  if (flags & rpc::kFlagRefs) {
    if (!cursor.head(count, second) || second > count || !cursor.array(count, view.refs)) return std::nullopt;
    view.arguments = second;
  }
  if (flags & rpc::kFlagActors)
    if (!cursor.head(count, second) || !cursor.array(count, view.actors)) return std::nullopt;
  if (flags & rpc::kFlagValues)
    if (!read_values(cursor, view.arguments, view.values)) return std::nullopt;
  view.rest = cursor.left();
  return view;
}

}  // namespace rayo::worker
