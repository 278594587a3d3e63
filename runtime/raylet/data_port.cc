#include "runtime/raylet/data_port.h"

#include "runtime/base/loop/socket.h"
#include "runtime/raylet/tls_wire.h"
#include "runtime/rpc/keep_alive.h"

namespace rayo::raylet {

DataPort::DataPort(base::Loop& loop, const rpc::Secret& data_secret, PeerLinks& links, Transfer& transfer,
                   SessionServer& sessions)
    : loop_(loop),
      keys_(rpc::LinkKeys::of_data(data_secret)),
      links_(links),
      transfer_(transfer),
      sessions_(sessions) {}

void DataPort::accept(base::Fd socket, const rpc::DataHeaderBytes& bytes) {
  auto header = rpc::parse_data_header(bytes);
  if (!header || header->kind == rpc::LinkKind::kJoin || !rpc::verify(*header, keys_)) return;
  if (!nonces_.admit(header->nonce, loop_.now())) return;
  switch (header->kind) {
    case rpc::LinkKind::kCall:
      links_.accepted(std::move(socket), *header);
      return;
    case rpc::LinkKind::kData:
      transfer_.serve(std::move(socket), *header);
      return;
    case rpc::LinkKind::kDriver:
      rpc::break_when_silent(socket.get());  // however it comes, a driver's end is noticed
      sessions_.serve(make_tls_wire(std::make_unique<base::Stream>(loop_, std::move(socket)),
                                    rpc::TlsPump::server(keys_.tls_key(header->nonce))));
      return;
    case rpc::LinkKind::kJoin:
      return;
  }
}

}  // namespace rayo::raylet
