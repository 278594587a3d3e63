#include "runtime/worker/detached_arguments.h"

#include "runtime/base/text.h"
#include "runtime/worker/call_wire.h"
#include "runtime/worker/failure.h"
#include "runtime/worker/object_table.h"

namespace rayo::worker {

namespace {

// Of all of them together: the head keeps them in its database.
constexpr size_t kMostCarried = 4u << 20;

ErrorRecord refusal(const proto::ActorSpec& spec, size_t index, const ObjectSlot& slot) {
  const std::string which = base::cat("argument ref ", index + 1, " of the detached actor '", spec.name(), "'");
  if (!slot.ready())
    return error_record(ErrorKind::kInvalid,
                        base::cat(which, " has no value yet: it would end with this program, and a restart needs it"),
                        "get the value before the actor is made, or leave max_restarts at 0");
  return error_record(
      ErrorKind::kInvalid,
      base::cat(which, " has ", slot.size, " bytes, which end with this program, and a restart needs them: it keeps ",
                kInlineArgument, " of each ref and ", kMostCarried, " in all"),
      "let the actor fetch large values itself, or leave max_restarts at 0");
}

}  // namespace

std::optional<ErrorRecord> carry_arguments(std::span<const internal::ObjectHandle> refs, proto::ActorSpec& spec) {
  size_t carried = 0;
  for (size_t i = 0; i < refs.size(); ++i) {
    const ObjectSlot& slot = slot_of(refs[i]);
    std::string& value = *spec.add_argument_values();
    const bool fits =
        slot.ready() && !slot.in_arena && slot.size <= kInlineArgument && carried + slot.size <= kMostCarried;
    if (fits && !slot.error) {
      value.assign(reinterpret_cast<const char*>(slot.data), slot.size);
      carried += slot.size;
    } else if (!slot.error && spec.max_restarts() != 0) {
      return refusal(spec, i, slot);
    }
  }
  return std::nullopt;
}

}  // namespace rayo::worker
