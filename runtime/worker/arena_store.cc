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

void ArenaStore::close(bool reads) {
  if (!view_ || writing_ != 0) return;
  if (reads)
    view_->close_file();
  else
    view_.reset();
}

base::StatusOr<internal::Bytes> ArenaStore::store(const ObjectId& id, std::span<const internal::Bytes> parts) {
  int64_t size = 0;
  for (const internal::Bytes& part : parts) size += static_cast<int64_t>(part.size());
  proto::ToRaylet message;
  set_id(message.mutable_create_object()->mutable_object(), id);
  message.mutable_create_object()->set_size_bytes(size);
  RAYO_ASSIGN_OR_RETURN(const proto::ToWorker answer, raylet_.ask(message, kSpaceTimeout));
  if (const proto::Failure* failure = failure_in(answer))
    return base::failed(absl::StatusCode::kResourceExhausted, failure->text(), failure->next_step());
  const int64_t offset = answer.object_space().offset_bytes();
  engine_.flush();
  ++writing_;
  engine_.baton().unlock();  // a gigabyte takes its time
  base::Status written;
  for (int64_t at = offset; const internal::Bytes& part : parts) {
    if (!written.ok()) break;
    written = view_->write(at, part);
    at += static_cast<int64_t>(part.size());
  }
  engine_.baton().lock();
  --writing_;
  message.Clear();
  set_id(message.mutable_seal_object()->mutable_object(), id);
  message.mutable_seal_object()->set_abort(!written.ok());
  RAYO_ASSIGN_OR_RETURN(const proto::ToWorker sealed, raylet_.ask(message, kSpaceTimeout));
  if (!written.ok()) return written;
  return read(offset, size);
}

}  // namespace rayo::worker
