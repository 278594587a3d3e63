// If this finds something, bytes from a stranger crash whoever accepts a TLS connection of ours, or pass as
// the key's holder.
#include "runtime/rpc/certificates.h"
#include "runtime/rpc/tls_pump.h"
#include "tests/fuzz/seeds.h"

std::vector<std::string> rayo::fuzz::seeds() {
  rpc::TlsPump client = rpc::TlsPump::client(rpc::Secret{1}), server = rpc::TlsPump::server(rpc::Secret{1});
  std::string hello(client.pending_ciphertext());
  (void)server.feed(hello);
  std::string answer(server.pending_ciphertext());
  auto authority = rpc::make_authority({1, 2}, base::system_clock().wall());
  return {"s" + hello, "c" + answer, "p" + authority->certificate_pem, "p" + rpc::make_signing_request()->request_pem};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rayo;
  if (size == 0) return 0;
  std::string_view rest = fuzz::text(data + 1, size - 1);
  if (data[0] == 'p') {
    static const rpc::Authority authority = *rpc::make_authority({1, 2}, base::system_clock().wall());
    (void)rpc::fingerprint_of(rest);
    (void)rpc::role_of(rest);
    (void)rpc::issue(authority, rest, {rpc::Role::kNode, {1, 2}, {3, 4}}, base::system_clock().wall());
    return 0;
  }
  // A fresh key: no seed's handshake can be completed by it.
  rpc::TlsPump pump = data[0] == 's' ? rpc::TlsPump::server(rpc::Secret{9}) : rpc::TlsPump::client(rpc::Secret{9});
  size_t half = rest.size() / 2;
  if (pump.feed(rest.substr(0, half)).ok()) (void)pump.feed(rest.substr(half));
  fuzz::expect(!pump.handshake_done() && pump.plaintext().empty());
  return 0;
}
