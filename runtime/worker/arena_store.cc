#include "runtime/worker/arena_store.h"

#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {
constexpr base::Duration kSpaceTimeout = std::chrono::seconds(60);
}

internal::Bytes ArenaStore::read(int64_t offset, int64_t size) const {
  if (!view_ || offset < 0 || size < 0 || offset > view_->size_bytes() || size > view_->size_bytes() - offset)
    return {};
  return view_->read(offset, size);
}

base::StatusOr<internal::Bytes> ArenaStore::store(const ObjectId& id, internal::Bytes bytes) {
  proto::ToRaylet message;
  set_id(message.mutable_create_object()->mutable_object(), id);
  message.mutable_create_object()->set_size_bytes(static_cast<int64_t>(bytes.size()));
  RAYO_ASSIGN_OR_RETURN(const proto::ToWorker answer, raylet_.ask(message, kSpaceTimeout));
  if (const proto::Failure* failure = failure_in(answer))
    return base::failed(absl::StatusCode::kResourceExhausted, failure->text(), failure->next_step());
  const int64_t offset = answer.object_space().offset_bytes();
  engine_.flush();
  engine_.baton().unlock();  // a gigabyte takes its time
  const base::Status written = view_->write(offset, bytes);
  engine_.baton().lock();
  message.Clear();
  set_id(message.mutable_seal_object()->mutable_object(), id);
  message.mutable_seal_object()->set_abort(!written.ok());
  RAYO_ASSIGN_OR_RETURN(const proto::ToWorker sealed, raylet_.ask(message, kSpaceTimeout));
  if (!written.ok()) return written;
  return read(offset, static_cast<int64_t>(bytes.size()));
}

}  // namespace rayo::worker
