// What arrives at this node's port behind a data header: calls for a process of this node, object chunks,
// remote drivers. A header that is not ours, not signed with the cluster's secret, or seen before, is cut
// without a word.
//
// In a fiber of the loop.
#pragma once

#include "runtime/base/loop/loop.h"
#include "runtime/raylet/peer_links.h"
#include "runtime/raylet/session_server.h"
#include "runtime/raylet/transfer.h"
#include "runtime/rpc/data_header.h"

namespace rayo::raylet {

class DataPort {
 public:
  DataPort(base::Loop& loop, const rpc::Secret& data_secret, PeerLinks& links, Transfer& transfer,
           SessionServer& sessions);
  void accept(base::Fd socket, const rpc::DataHeaderBytes& bytes);

 private:
  base::Loop& loop_;
  rpc::LinkKeys keys_;
  PeerLinks& links_;
  Transfer& transfer_;
  SessionServer& sessions_;
  rpc::NonceCache nonces_;
};

}  // namespace rayo::raylet
