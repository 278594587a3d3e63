// What a head stands on before it answers anybody: its store, the cluster's identity in it, the CA, the token, the
// settings. Made at the first start in the state directory, found there at the next.
#pragma once

#include <memory>

#include "runtime/base/clock.h"
#include "runtime/base/config.h"
#include "runtime/base/settings.h"
#include "runtime/head/control_store.h"
#include "runtime/proto/store.pb.h"
#include "runtime/rpc/certificates.h"
#include "runtime/rpc/identity.h"
#include "runtime/rpc/join.h"

namespace rayo::head {

struct Foundation {
  base::HeadSettings settings;
  base::Config config;
  std::unique_ptr<ControlStore> store;
  std::vector<Row> rows;  // as found
  proto::StoredCluster cluster;
  rpc::TlsIdentity identity;
  rpc::JoinDesk desk;

  ClusterId id() const { return desk.cluster; }
};

// Blocks (disk). The epoch is one more than at the last start, and written. Errors name the file and what to do.
base::StatusOr<Foundation> lay_foundation(base::HeadSettings settings, const base::Clock& clock);

}  // namespace rayo::head
