#include "runtime/worker/object_pieces.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {
// Large enough that a round trip between two of them costs little, small enough for one turn of the raylet's loop.
constexpr size_t kPiece = 2u << 20;
}  // namespace

void ObjectPieces::read(const ObjectId& id, size_t size, Done done) {
  Reading& reading = readings_[id];
  reading.value = {std::make_unique_for_overwrite<std::byte[]>(size), size};
  reading.done = std::move(done);
  ask(id, reading);
}

void ObjectPieces::ask(const ObjectId& id, const Reading& reading) {
  proto::ToRaylet message;
  proto::ReadObject& wanted = *message.mutable_read_object();
  set_id(wanted.mutable_object(), id);
  wanted.set_offset_bytes(static_cast<int64_t>(reading.arrived));
  wanted.set_size_bytes(static_cast<int64_t>(std::min(kPiece, reading.value.size - reading.arrived)));
  raylet_.request(message,
                  [this, id](const RayletLink::Answer& answer, std::vector<base::Fd>&) { on_piece(id, answer); });
}

void ObjectPieces::on_piece(const ObjectId& id, const RayletLink::Answer& answer) {
  Reading& reading = readings_.at(id);
  if (!answer.ok()) return finish(id, answer.status());
  if (const proto::Failure* failure = failure_in(*answer))
    return finish(id, base::failed(absl::StatusCode::kUnavailable, failure->text(), failure->next_step()));
  const std::string& data = answer->object_piece().data();
  if (data.empty() || data.size() > reading.value.size - reading.arrived)
    return finish(id, base::failed(absl::StatusCode::kInternal,
                                   base::cat("the raylet answered ", data.size(), " bytes of object ", id.hex(), " at ",
                                             reading.arrived, " of ", reading.value.size)));
  std::memcpy(reading.value.bytes.get() + reading.arrived, data.data(), data.size());
  reading.arrived += data.size();
  if (reading.arrived < reading.value.size) return ask(id, reading);
  finish(id, absl::OkStatus());
}

void ObjectPieces::finish(const ObjectId& id, const base::Status& status) {
  Reading reading = std::move(readings_.extract(id).mapped());
  proto::ToRaylet message;
  set_id(message.mutable_release_object()->mutable_object(), id);
  raylet_.push(message);
  status.ok() ? reading.done(std::move(reading.value)) : reading.done(status);
}

}  // namespace rayo::worker
