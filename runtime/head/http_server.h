// The head's HTTP port: plain on loopback, TLS with the cluster's token on the address that other machines reach
// (http_answers.h). Every connection is a fiber and serves one request.
//
//   RAYO_ASSIGN_OR_RETURN(auto http, HttpServer::open(loop, {.bind = settings.bind, ...}));
//   fibers.spawn("http", [&] { http->run(); });
//
// Bounds (timeouts.h): headers by bytes and time, a handshake by time, connections by number, apart for loopback, for
// others, and for one address of those. Who comes over a bound is reset. Plain HTTP on the TLS address is told so.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/loop/event.h"
#include "runtime/base/loop/loop.h"
#include "runtime/base/loop/socket.h"
#include "runtime/base/settings.h"
#include "runtime/head/http_answers.h"
#include "runtime/rpc/identity.h"

namespace rayo::head {

class HttpServer {
 public:
  struct Options {
    base::Binding bind;         // host and advertise of the head; port and port_fixed of this port
    bool local = false;         // loopback alone
    rpc::TlsIdentity identity;  // shown on TLS; names bind's hosts
    rpc::Secret token_secret{};
    std::function<std::string()> status;  // the document of /api/status
  };

  // AlreadyExists: the port was asked for by number and is taken, by whom.
  static base::StatusOr<std::unique_ptr<HttpServer>> open(base::Loop& loop, Options options);
  ~HttpServer();
  // In a fiber, until cancelled or closed.
  void run();
  void close();

  // As other machines reach it; of a --local cluster as this machine does.
  std::string url() const;
  const std::vector<std::string>& notes() const { return notes_; }

  // The hosts by which others reach the port of this binding: for its certificate.
  static std::vector<std::string> names(const base::Binding& bind);

 private:
  struct Tls;  // Asio's TLS context

  HttpServer(base::Loop& loop, Options options);
  base::Status listen();
  base::Status prepare_tls();
  void accept_from(base::Acceptor& acceptor);
  bool admit(const std::string& from);
  void leave(const std::string& from);
  void serve(base::Fd fd);
  void serve_plain(base::Stream& stream, bool for_tls);
  void serve_tls(base::Stream& stream);

  base::Loop& loop_;
  Options options_;
  HttpPages pages_;
  std::unique_ptr<Tls> tls_;
  std::vector<std::unique_ptr<base::Acceptor>> acceptors_;
  std::vector<std::string> notes_;
  std::unordered_map<std::string, int> by_address_;
  int from_loopback_ = 0;
  int from_elsewhere_ = 0;
  base::TaskGroup fibers_;
};

}  // namespace rayo::head
