#include "runtime/head/foundation.h"

#include "runtime/base/ids.h"
#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/head/records.h"
#include "runtime/head/sqlite_store.h"
#include "runtime/rpc/proto_ids.h"
#include "runtime/rpc/token.h"

namespace rayo::head {

using base::cat;

namespace {

base::StatusOr<base::Config> read_config(const base::Path& file) {
  return file.empty() ? base::Config() : base::Config::read(file);
}

void find_cluster(Foundation& found, const base::Clock& clock) {
  for (const auto& row : found.rows) {
    if (row.table == "meta" && row.key == "cluster") found.cluster.ParseFromString(row.value);
  }
  if (!rpc::from_proto<ClusterId>(found.cluster.cluster())) {
    *found.cluster.mutable_cluster() = rpc::to_proto(base::random_id<ClusterId>());
    found.cluster.set_name(found.settings.name);
    found.cluster.set_started_at_unix_us(unix_us(clock.wall()));
  }
  found.cluster.set_epoch(found.cluster.epoch() + 1);
}

base::StatusOr<rpc::Authority> find_authority(const base::Path& dir, const ClusterId& cluster,
                                              const base::Clock& clock) {
  auto known = rpc::load_authority(dir);
  if (known.ok() || known.status().code() != absl::StatusCode::kNotFound) return known;
  RAYO_ASSIGN_OR_RETURN(auto made, rpc::make_authority(cluster, clock.wall()));
  RAYO_RETURN_IF_ERROR(rpc::store_authority(dir, made));
  return made;
}

base::StatusOr<rpc::Token> find_token(const base::Path& file, const rpc::Authority& authority) {
  RAYO_ASSIGN_OR_RETURN(auto fingerprint, rpc::fingerprint_of(authority.certificate_pem));
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    RAYO_ASSIGN_OR_RETURN(auto text, base::read_file(file));
    RAYO_ASSIGN_OR_RETURN(auto token, rpc::Token::parse(text));
    if (token.fingerprint == fingerprint) return token;
    return base::failed(absl::StatusCode::kFailedPrecondition,
                        cat("the token in ", file.string(), " is of another cluster than the state of this head"),
                        "move the token file away: a new one is written");
  }
  auto token = rpc::Token::make(fingerprint);
  RAYO_RETURN_IF_ERROR(base::write_private_file(file, token.text() + "\n"));
  return token;
}

}  // namespace

base::StatusOr<Foundation> lay_foundation(base::HeadSettings settings, const base::Clock& clock) {
  Foundation out;
  out.settings = std::move(settings);
  RAYO_ASSIGN_OR_RETURN(out.config, read_config(out.settings.config_file));
  RAYO_RETURN_IF_ERROR(base::make_private_dir(out.settings.state_dir));
  RAYO_ASSIGN_OR_RETURN(out.store, SqliteStore::open(out.settings.state_dir / "control.db"));
  RAYO_ASSIGN_OR_RETURN(out.rows, out.store->load_all());
  find_cluster(out, clock);
  auto cluster = rpc::from_proto<ClusterId>(out.cluster.cluster());
  RAYO_ASSIGN_OR_RETURN(auto authority, find_authority(out.settings.state_dir, cluster, clock));
  RAYO_ASSIGN_OR_RETURN(auto token, find_token(out.settings.token_file, authority));
  RAYO_ASSIGN_OR_RETURN(out.identity, rpc::issue_identity(authority, {rpc::Role::kHead, cluster, {}}, clock.wall()));
  if (out.cluster.data_secret().empty()) out.cluster.set_data_secret(rpc::to_bytes(token.data_secret()));
  RAYO_ASSIGN_OR_RETURN(auto data_secret, rpc::secret_from_bytes(out.cluster.data_secret()));
  out.desk = {.token_secret = token.secret,
              .authority = std::move(authority),
              .cluster = cluster,
              .cluster_name = out.cluster.name(),
              .version = std::string(base::kVersion),
              .data_secret = data_secret};
  Batch batch;
  batch.put("meta", "cluster", out.cluster.SerializeAsString());
  RAYO_RETURN_IF_ERROR(out.store->apply(batch));
  return out;
}

}  // namespace rayo::head
