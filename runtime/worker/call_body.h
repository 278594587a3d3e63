// The body of a call or reply: sections named by the header's flags, in the order refs, actors, values, then
// the arguments or the value. Sections are multiples of 8 bytes. A call without refs and handles has no section at all.
//
//   BodyWriter body;
//   body.refs(ids, 2);            // two of them are arguments
//   body.values({{0, bytes}});
//   header.flags |= body.flags();
//   engine.send(peer, header, {body.bytes(), arguments});
//
// Reading checks every length against the body: it comes from another process. Pure, no thread rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <rayo/id.h>

#include "runtime/rpc/frame.h"

namespace rayo::worker {

using ByteView = std::span<const std::byte>;

struct InlineValue {
  uint32_t index = 0;  // of the argument ref
  ByteView bytes;
};

class BodyWriter {
 public:
  // Each at most once, in this order.
  void refs(std::span<const ObjectId> ids, uint32_t arguments);
  void actors(std::span<const ActorId> ids);
  void values(std::span<const InlineValue> values);

  uint16_t flags() const { return flags_; }
  ByteView bytes() const { return bytes_; }

 private:
  void put(const void* from, size_t bytes);
  void head(uint32_t first, uint32_t second);

  uint16_t flags_ = 0;
  std::vector<std::byte> bytes_;
};

struct BodyView {
  std::vector<ObjectId> refs;
  uint32_t arguments = 0;  // of `refs`: so many are arguments, the rest is inside values
  std::vector<ActorId> actors;
  std::vector<InlineValue> values;
  ByteView rest;
};

// nullopt where the sections do not fit the body.
std::optional<BodyView> read_body(uint16_t flags, ByteView body);

inline constexpr uint16_t kSectionFlags = rpc::kFlagRefs | rpc::kFlagActors | rpc::kFlagValues;

}  // namespace rayo::worker
