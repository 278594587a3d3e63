#include "runtime/worker/failure.h"

#include <cstring>

#include "runtime/base/text.h"

namespace rayo::worker {

DeathRecord death_of(const proto::DeathRecord& death) {
  DeathRecord record;
  record.at = std::chrono::sys_time<std::chrono::microseconds>(std::chrono::microseconds(death.at_unix_us()));
  record.node = id_of<NodeId>(death.node());
  record.pid = death.pid();
  record.kind = static_cast<DeathKind>(death.kind());
  record.exit_code = death.exit_code();
  record.signal = death.signal();
  record.core_dumped = death.core_dumped();
  record.rss_peak_bytes = death.rss_peak_bytes();
  record.incarnation = death.incarnation();
  record.text = death.text();
  record.last_log_lines.assign(death.last_log_lines().begin(), death.last_log_lines().end());
  return record;
}

namespace {

void set_death(proto::DeathRecord* out, const DeathRecord& death) {
  out->set_at_unix_us(death.at.time_since_epoch().count());
  set_id(out->mutable_node(), death.node);
  out->set_pid(death.pid);
  out->set_kind(static_cast<proto::DeathKind>(death.kind));
  out->set_exit_code(death.exit_code);
  out->set_signal(death.signal);
  out->set_core_dumped(death.core_dumped);
  out->set_rss_peak_bytes(death.rss_peak_bytes);
  out->set_incarnation(death.incarnation);
  out->set_text(death.text);
  for (const std::string& line : death.last_log_lines) out->add_last_log_lines(line);
}

// One sentence for a record that carries none.
std::string sentence(const proto::DeathRecord& death) {
  if (!death.text().empty()) return death.text();
  switch (death.kind()) {
    case proto::EXIT:
      return base::cat("its process ended with exit code ", death.exit_code());
    case proto::SIGNAL:
      return base::cat("its process was ended by signal ", death.signal(), " (", ::strsignal(death.signal()), ")");
    case proto::OUT_OF_MEMORY:
      return "its process was ended for lack of memory";
    case proto::NODE_LOST:
      return "its node was lost";
    case proto::KILLED:
      return "it was killed by rayo::kill";
    case proto::DRIVER_GONE:
      return "the program that created it ended";
    case proto::OUT_OF_SCOPE:
      return "its last handle was dropped";
    default:
      return "its process ended";
  }
}

}  // namespace

ErrorRecord record_of(const proto::Failure& failure) {
  ErrorRecord record;
  record.kind = failure.kind() <= proto::INVALID ? static_cast<ErrorKind>(failure.kind()) : ErrorKind::kInternal;
  record.text = failure.text();
  record.next_step = failure.next_step();
  record.remote_type = failure.remote_type();
  record.stack = failure.stack();
  record.payload = failure.payload();
  if (failure.has_death()) record.death = death_of(failure.death());
  return record;
}

ErrorRecord record_of(const base::Status& status) {
  ErrorRecord record;
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      record.kind = ErrorKind::kTimeout;
      break;
    case absl::StatusCode::kCancelled:
      record.kind = ErrorKind::kCancelled;
      break;
    case absl::StatusCode::kResourceExhausted:
      record.kind = ErrorKind::kBackpressure;
      break;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      record.kind = ErrorKind::kInvalid;
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      record.kind = ErrorKind::kUnavailable;
      break;
    default:
      record.kind = ErrorKind::kInternal;
  }
  record.text = base::message(status);
  record.next_step = base::next_step(status);
  return record;
}

proto::Failure failure_of(const ErrorRecord& record) {
  proto::Failure failure;
  failure.set_kind(static_cast<proto::FailureKind>(record.kind));
  failure.set_text(record.text);
  failure.set_next_step(record.next_step);
  failure.set_remote_type(record.remote_type);
  failure.set_stack(record.stack);
  failure.set_payload(record.payload);
  if (record.death) set_death(failure.mutable_death(), *record.death);
  return failure;
}

ErrorRecord actor_died(std::string_view who, const proto::DeathRecord& death) {
  ErrorRecord record = error_record(ErrorKind::kActorDied, base::cat("actor ", who, " is dead: ", sentence(death)),
                                    "`rayo logs` shows what its process printed");
  record.death = death_of(death);
  return record;
}

ErrorRecord too_many_pending(std::string_view who, uint64_t limit) {
  return error_record(ErrorKind::kBackpressure,
                      base::cat("actor ", who, " has ", limit,
                                " calls of this process that have not ended, which is its "
                                "max_pending_calls"),
                      "wait for earlier results before making more calls");
}

ErrorRecord task_worker_died(std::string_view task, const proto::DeathRecord& death) {
  ErrorRecord record = error_record(ErrorKind::kTaskSystem, base::cat("task ", task, " did not end: ", sentence(death)),
                                    "`rayo logs` shows what its process printed");
  record.death = death_of(death);
  return record;
}

}  // namespace rayo::worker
