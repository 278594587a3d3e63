// The cluster that a command speaks to: found without a flag on its own machine, by RAYO_ADDRESS or --address
// elsewhere.
//
//   ClusterSearch search = find_cluster(address_flag, terminal);
//   if (!search.cluster) return terminal.fail(search.error, search.code);
//   auto reply = search.cluster->head().call_blocking(rpc::head::kGetStatus, {}, 2s);
//
// On the head's machine by its unix control socket, from elsewhere by mutual TLS as a client that joins with
// the token. Of the main thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/base/session.h"
#include "runtime/cli/terminal.h"
#include "runtime/rpc/grpc/client.h"

namespace rayo::cli {

class Cluster {
 public:
  // Of this machine, or (session == nullopt) at `address` alone.
  Cluster(std::optional<base::Session> session, std::string address);
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  const std::optional<base::Session>& session() const { return session_; }
  const std::string& address() const { return address_; }

  // The way to the head, made at the first use. From another machine it joins as a client: Unavailable,
  // Unauthenticated.
  base::StatusOr<rpc::Channel*> head(Terminal& terminal);
  // The control socket of this machine's first live raylet; nullptr where none is.
  rpc::Channel* local_raylet();
  // A raylet elsewhere; needs what head() brought.
  base::StatusOr<std::unique_ptr<rpc::Channel>> raylet_at(const std::string& address, Terminal& terminal);

 private:
  base::Status join_as_client(Terminal& terminal);

  std::optional<base::Session> session_;
  std::string address_;
  std::unique_ptr<rpc::Channel> head_;
  std::unique_ptr<rpc::Channel> local_raylet_;
  std::optional<rpc::TlsIdentity> identity_;
  ClusterId cluster_;
};

struct ClusterSearch {
  std::optional<Cluster> cluster;
  base::Status error;
  ExitCode code = kDone;
};

// `address`: of --address, else RAYO_ADDRESS is asked; both empty: the one cluster of this home.
ClusterSearch find_cluster(const std::string& address, Terminal& terminal);

// The flag --address of every reader.
void add_address_flag(class Flags& flags, std::string& address);

}  // namespace rayo::cli
