// The two sides of a join as another minor version would speak them, with the real library:
//
//   cluster_other_version node HOST:PORT TOKEN     prints what the head tells it; exit code of `rayo start`
//   cluster_other_version head                     prints its address and a token, then answers one join
#include <cstdio>
#include <poll.h>
#include <string>
#include <sys/socket.h>

#include "runtime/base/address.h"
#include "runtime/base/ids.h"
#include "runtime/rpc/data_header.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/join.h"
#include "runtime/rpc/listen.h"
#include "runtime/rpc/tls_stream.h"

namespace {

namespace base = rayo::base;
namespace rpc = rayo::rpc;

constexpr const char* kOther = "9.9.0";

base::TimePoint soon() { return base::deadline_after(base::system_clock().now(), std::chrono::seconds(20)); }

int join_as_node(const char* address, const char* token_text) {
  auto head = base::parse_host_port(address);
  auto token = rpc::Token::parse(token_text);
  if (!head.ok() || !token.ok()) return 2;
  auto joined = rpc::join(*head, *token, {rpc::Role::kNode, base::random_id<rpc::MemberId>(), kOther}, soon());
  if (joined.ok()) return 0;
  std::printf("%s\ntry: %s\n", std::string(base::message(joined.status())).c_str(),
              base::next_step(joined.status()).c_str());
  return rpc::join_exit_code(joined.status());
}

int serve_as_head() {
  auto cluster = base::random_id<rayo::ClusterId>();
  auto now = base::system_clock().wall();
  auto authority = rpc::make_authority(cluster, now);
  if (!authority.ok()) return 1;
  auto token = rpc::Token::make(rpc::fingerprint_of(authority->certificate_pem).value());
  auto listening = rpc::listen_on({"127.0.0.1"}, 0);
  if (!listening.ok()) return 1;
  std::printf("127.0.0.1:%d\n%s\n", listening->port, token.text().c_str());
  std::fflush(stdout);
  int listener = listening->sockets[0].get();
  if (!rpc::wait_fd(listener, POLLIN, soon()).value_or(false)) return 1;
  base::Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  rpc::DataHeaderBytes bytes{};
  auto got = rpc::receive_all(socket.get(), reinterpret_cast<char*>(bytes.data()), bytes.size(), soon());
  auto header = rpc::parse_data_header(bytes);
  if (!got.ok() || !header) return 1;
  rpc::JoinDesk desk{.token_secret = token.secret,
                     .authority = *authority,
                     .cluster = cluster,
                     .cluster_name = "future",
                     .version = kOther,
                     .data_secret = token.data_secret()};
  return rpc::serve_join(std::move(socket), *header, desk).ok() ? 0 : 4;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "node") return join_as_node(argv[2], argv[3]);
  if (argc == 2 && std::string(argv[1]) == "head") return serve_as_head();
  return 2;
}
