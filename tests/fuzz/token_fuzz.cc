// If this finds something, a badly pasted token, address or role name crashes a command or is taken for
// another one.
#include "runtime/base/address.h"
#include "runtime/rpc/certificates.h"
#include "runtime/rpc/token.h"
#include "tests/fuzz/seeds.h"

std::vector<std::string> rayo::fuzz::seeds() {
  return {rpc::Token{}.text(), "10.0.0.5:6379,head.lan:6380", "[fe80::1]:6379",
          rpc::RoleName{rpc::Role::kHead, {1, 2}, {}}.uri(), rpc::RoleName{rpc::Role::kNode, {1, 2}, {3, 4}}.uri()};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rayo;
  std::string_view text = fuzz::text(data, size);
  auto token = rpc::Token::parse(text);
  if (token.ok()) fuzz::expect(rpc::Token::parse(token->text())->secret == token->secret);
  fuzz::expect(token.ok() || !base::next_step(token.status()).empty());
  auto addresses = base::parse_host_ports(text);
  if (addresses.ok())
    for (const base::HostPort& address : *addresses) {
      auto again = base::parse_host_port(address.text());
      fuzz::expect(again.ok() && *again == address);
    }
  auto role = rpc::RoleName::parse(text);
  if (role) fuzz::expect(role->uri() == text);
  return 0;
}
