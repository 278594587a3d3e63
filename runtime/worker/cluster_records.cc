// What a ClusterBackend asks of the cluster's records: named actors, values by key, other programs, nodes, and where it
// runs itself.
#include "runtime/base/text.h"
#include "runtime/worker/cluster_backend.h"
#include "runtime/worker/demand.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

internal::ActorRecord ClusterBackend::find_actor(std::string_view name, std::string_view name_space) {
  using internal::ActorRecord;
  Hold hold = enter();
  proto::ToRaylet message;
  message.mutable_find_actor()->set_name(std::string(name));
  message.mutable_find_actor()->set_namespace_(name_space.empty() ? self_.context.name_space : std::string(name_space));
  const proto::ActorInfo info = ask(message, kControlTimeout).actor_reply().actor();
  const auto actor = id_of<ActorId>(info.actor());
  traffic_.references().retain_actor(actor);
  traffic_.actors().create(actor, info.class_name());
  traffic_.watch_actor(actor);
  traffic_.finish_turn();
  return ActorRecord{actor, info.class_name(), info.constructor()};
}

proto::ToRaylet ClusterBackend::key_value(proto::KeyValue::Op op, std::string_view key) const {
  proto::ToRaylet message;
  message.mutable_key_value()->set_op(op);
  message.mutable_key_value()->set_namespace_(
      base::cat("job:", self_.context.job.hex()));  // the head ends it with the job
  message.mutable_key_value()->set_key(std::string(key));
  return message;
}

void ClusterBackend::store(std::string_view key, internal::Bytes value) {
  Hold hold = enter();
  proto::ToRaylet message = key_value(proto::KeyValue::PUT, key);
  message.mutable_key_value()->set_value(value.data(), value.size());
  (void)ask(message, kControlTimeout);
}

std::optional<std::string> ClusterBackend::load(std::string_view key) {
  Hold hold = enter();
  proto::ToWorker answer = ask(key_value(proto::KeyValue::GET, key), kControlTimeout);
  if (!answer.key_value_reply().found()) return std::nullopt;
  return std::move(*answer.mutable_key_value_reply()->mutable_value());
}

internal::ActorRecord ClusterBackend::look_up(const ActorId& actor) {
  Hold hold = enter();
  await_registered({&actor, 1});
  proto::ToRaylet message;
  set_id(message.mutable_find_actor()->mutable_actor(), actor);
  const proto::ActorInfo info = ask(message, kControlTimeout).actor_reply().actor();
  return {actor, info.class_name(), info.constructor()};
}

JobId ClusterBackend::open_program(const std::string& path) {
  base::StatusOr<ProgramFile> program = read_program(path);  // without the baton: a large file takes its time
  if (!program.ok()) throw_error(record_of(program.status()));
  Hold hold = enter();
  proto::ToRaylet message;
  proto::OfferPackage& offer = *message.mutable_offer_package();
  set_id(offer.mutable_package(), program->package);
  offer.set_size_bytes(program->size_bytes);
  offer.set_program(path);
  proto::ToWorker answer = ask(message, kPackageTimeout);
  if (answer.package_reply().needed() && self_.context.remote) {
    answer = send_program(*program, path);
  } else if (answer.package_reply().needed()) {
    offer.set_with_file(true);
    const int fd = program->file.get();
    answer = ask(message, kPackageTimeout, {&fd, 1});
  }
  if (!answer.package_reply().has_job())
    throw_error(error_record(ErrorKind::kUnavailable, base::cat("the raylet did not take the program ", path),
                             "see the raylet's log"));
  return id_of<JobId>(answer.package_reply().job());
}

proto::ToWorker ClusterBackend::send_program(const ProgramFile& program, const std::string& path) {
  proto::ToWorker answer;
  const base::Status sent = in_chunks(program, [&](proto::ToRaylet& message) {
    const bool last = message.package_chunk().last();
    if (!last) return traffic_.raylet().push(message);
    message.mutable_package_chunk()->set_program(path);
    answer = ask(message, kPackageTimeout);
  });
  if (!sent.ok()) throw_error(record_of(sent));
  return answer;
}

std::vector<NodeRecord> ClusterBackend::nodes() {
  Hold hold = enter();
  proto::ToRaylet message;
  message.mutable_list_nodes();
  std::vector<NodeRecord> out;
  const proto::ToWorker answer = ask(message, kControlTimeout);
  for (const proto::NodeInfo& info : answer.nodes_reply().nodes()) out.push_back(node_record(info));
  return out;
}

ContextRecord ClusterBackend::context() {
  Hold hold = enter();
  ContextRecord record = self_.context;
  CallHost& host = traffic_.host();
  const CallHost::Hosted& hosted = host.hosted();
  record.actor = hosted.actor;
  record.incarnation = hosted.incarnation;
  record.devices = hosted.devices;
  record.resources = hosted.resources;
  record.actor_name = hosted.actor_name;
  if (in_call() && host.running()->call_id != 0)  // (a constructor has none)
    record.call = host.call_of(host.running()->peer, host.running()->call_id);
  return record;
}

}  // namespace rayo::worker
