#include "runtime/head/http_server.h"

#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <sys/socket.h>

#include "runtime/base/address.h"
#include "runtime/base/text.h"
#include "runtime/head/fiber_stream.h"
#include "runtime/head/timeouts.h"
#include "runtime/rpc/data_header.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/listen.h"

namespace rayo::head {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using base::cat;

namespace {

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

using Parser = http::request_parser<http::empty_body>;

enum class Came { kRequest, kTooLong, kNonsense, kNothing };

// One request's headers.
template <class Readable>
Came read_request(Readable& readable, Parser& parser) {
  beast::flat_buffer buffer(kHttpHeaderBytes);
  parser.header_limit(kHttpHeaderBytes);
  boost::system::error_code error;
  http::read_header(readable, buffer, parser, error);
  if (!error) return Came::kRequest;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return Came::kTooLong;
  bool cut = error == http::error::end_of_stream || error == http::error::partial_message;
  bool is_http = error.category() == http::make_error_code(http::error::bad_method).category();
  return is_http && !cut ? Came::kNonsense : Came::kNothing;
}

HttpResponse refusal_of(Came came) {
  if (came == Came::kTooLong)
    return refusal(http::status::request_header_fields_too_large, "the request's headers are over 16 KiB");
  return refusal(http::status::bad_request, "this is no HTTP request");
}

// A socket that is closed while bytes wait unread is reset, and the answer may be lost on the way: so they are read.
void let_read(base::Stream& stream, base::TimePoint deadline) {
  ::shutdown(stream.fd(), SHUT_WR);
  std::vector<std::byte> scrap(kHttpHeaderBytes);
  for (size_t seen = 0; seen < kHttpScrapBytes;) {
    auto got = stream.read_some(scrap, deadline);
    if (!got.ok() || *got == 0) return;
    seen += *got;
  }
}

}  // namespace

struct HttpServer::Tls {
  asio::ssl::context context{asio::ssl::context::tls_server};
};

base::StatusOr<std::unique_ptr<HttpServer>> HttpServer::open(base::Loop& loop, Options options) {
  std::unique_ptr<HttpServer> server(new HttpServer(loop, std::move(options)));
  RAYO_RETURN_IF_ERROR(server->listen());
  if (!server->options_.local) RAYO_RETURN_IF_ERROR(server->prepare_tls());
  return server;
}

HttpServer::HttpServer(base::Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {
  pages_.token_secret = options_.token_secret;
  pages_.status = options_.status;
}

HttpServer::~HttpServer() = default;

base::Status HttpServer::listen() {
  const base::Binding& bind = options_.bind;
  auto hosts = rpc::hosts_of({.host = options_.local ? "127.0.0.1" : bind.host});
  auto listening = rpc::listen_on(hosts, bind.port);
  if (absl::IsAlreadyExists(listening.status())) {
    std::string taken = cat("HTTP ", rpc::taken_text(bind.port));
    if (bind.port_fixed)
      return base::failed(absl::StatusCode::kAlreadyExists, cat("cannot listen: ", taken),
                          "give another --http-port, or leave it out for any free one");
    listening = rpc::listen_on(hosts, 0);
    if (listening.ok()) notes_.push_back(cat(taken, ": using ", listening->port));
  }
  if (!listening.ok()) return listening.status();
  pages_.port = listening->port;
  for (auto& socket : listening->sockets)
    acceptors_.push_back(std::make_unique<base::Acceptor>(loop_, std::move(socket)));
  return {};
}

base::Status HttpServer::prepare_tls() {
  tls_ = std::make_unique<Tls>();
  asio::ssl::context& context = tls_->context;
  const rpc::TlsIdentity& own = options_.identity;
  boost::system::error_code failed[4];
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                          asio::ssl::context::no_tlsv1_1 | asio::ssl::context::no_compression,
                      failed[0]);
  context.set_verify_mode(asio::ssl::verify_none, failed[1]);
  std::string chain = own.certificate_pem + own.ca_pem;  // the CA too: its hash is half of the token
  context.use_certificate_chain(asio::buffer(chain), failed[2]);
  context.use_private_key(asio::buffer(own.key_pem), asio::ssl::context::pem, failed[3]);
  SSL_CTX_set_session_cache_mode(context.native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.native_handle(), 0);
  for (const auto& error : failed)
    if (error) return base::failed(absl::StatusCode::kInternal, cat("cannot set up TLS for HTTP: ", error.message()));
  return {};
}

std::vector<std::string> HttpServer::names(const base::Binding& bind) {
  std::vector<std::string> names = {bind.host};
  if (!bind.advertise.empty())
    if (auto told = base::parse_host(bind.advertise, 0); told.ok()) names.insert(names.begin(), told->host);
  return names;
}

std::string HttpServer::url() const {
  if (options_.local) return cat("http://127.0.0.1:", pages_.port);
  return cat("https://", base::HostPort{names(options_.bind).front(), pages_.port}.text());
}

void HttpServer::close() {
  for (auto& acceptor : acceptors_) acceptor->close();
}

void HttpServer::run() {
  base::TaskGroup accepting;
  for (auto& acceptor : acceptors_) accepting.spawn("http-accept", [this, &acceptor] { accept_from(*acceptor); });
  accepting.join();
}

void HttpServer::accept_from(base::Acceptor& acceptor) {
  while (!base::fiber_cancelled()) {
    auto fd = acceptor.accept();
    if (!fd.ok()) return;
    auto peer = rpc::peer_address(fd->get());
    if (!peer.ok()) continue;  // gone already
    std::string from = peer->host();
    if (!admit(from)) {
      base::reset_connection(*std::move(fd));
      continue;
    }
    fibers_.spawn("http", [this, from, fd = std::move(*fd)]() mutable {
      serve(std::move(fd));
      leave(from);
    });
  }
}

bool HttpServer::admit(const std::string& from) {
  int& all = is_loopback(from) ? from_loopback_ : from_elsewhere_;
  if (all >= kHttpConnections) return false;
  if (!is_loopback(from)) {
    auto known = by_address_.find(from);
    if (known != by_address_.end() && known->second >= kHttpPerAddress) return false;
    ++by_address_[from];
  }
  ++all;
  return true;
}

void HttpServer::leave(const std::string& from) {
  if (is_loopback(from)) {
    --from_loopback_;
    return;
  }
  --from_elsewhere_;
  if (--by_address_[from] == 0) by_address_.erase(from);
}

void HttpServer::serve(base::Fd fd) {
  // Where it arrived decides, not where it comes from: what a proxy on this machine passes on is a stranger's.
  auto at = rpc::local_address(fd.get());
  if (!at.ok()) return;
  base::Stream stream(loop_, std::move(fd));
  if (is_loopback(at->host())) return serve_plain(stream, false);
  std::byte first{};
  auto seen = stream.peek({&first, 1}, loop_.deadline(kHttpHandshakeWithin));
  if (!seen.ok() || *seen == 0) return;
  if (first == std::byte{rpc::kTlsFirstByte}) return serve_tls(stream);
  serve_plain(stream, true);
}

void HttpServer::serve_plain(base::Stream& stream, bool for_tls) {
  FiberStream readable(loop_, stream);
  auto deadline = loop_.deadline(kHttpRequestWithin);
  readable.until(deadline);
  Parser parser;
  Came came = read_request(readable, parser);
  if (came == Came::kNothing) return;
  HttpResponse response = came != Came::kRequest ? refusal_of(came) : answer_on_loopback(parser.get(), pages_);
  if (for_tls) response = refusal(http::status::bad_request, cat("this address speaks HTTPS alone\ntry: ", url()));
  if (stream.write(wire_form(response), {}, deadline).ok()) let_read(stream, loop_.deadline(kHttpScrapWithin));
}

void HttpServer::serve_tls(base::Stream& stream) {
  FiberStream below(loop_, stream);
  below.until(loop_.deadline(kHttpHandshakeWithin));
  asio::ssl::stream<FiberStream&> secured(below, tls_->context);
  boost::system::error_code error;
  secured.handshake(asio::ssl::stream_base::server, error);
  if (error) return;
  below.until(loop_.deadline(kHttpRequestWithin));
  Parser parser;
  Came came = read_request(secured, parser);
  if (came == Came::kNothing) return;
  HttpResponse response = came == Came::kRequest ? answer_with_token(parser.get(), pages_) : refusal_of(came);
  asio::write(secured, asio::buffer(wire_form(response)), error);
  if (error) return;
  below.until(loop_.deadline(kHttpScrapWithin));
  secured.shutdown(error);  // says farewell, and waits for the other side's that long
  let_read(stream, loop_.deadline(kHttpScrapWithin));
}

}  // namespace rayo::head
