#include "runtime/head/http_server.h"

#include <arpa/inet.h>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <netinet/in.h>
#include <sys/socket.h>

#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/head/timeouts.h"
#include "runtime/rpc/port_holder.h"

namespace rayo::head {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using base::cat;

namespace {

// A base::Stream as Beast's synchronous stream: what would block suspends the fiber.
class BeastStream {
 public:
  BeastStream(base::Stream& stream, base::TimePoint deadline) : stream_(stream), deadline_(deadline) {}

  template <class Buffers>
  size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
    asio::mutable_buffer first = *asio::buffer_sequence_begin(buffers);
    auto got = stream_.read_some({static_cast<std::byte*>(first.data()), first.size()}, deadline_);
    error = {};
    if (!got.ok()) error = asio::error::timed_out;
    if (got.ok() && *got == 0) error = asio::error::eof;
    return got.ok() ? *got : 0;
  }
  template <class Buffers>
  size_t read_some(const Buffers& buffers) {
    boost::system::error_code error;
    size_t got = read_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return got;
  }

 private:
  base::Stream& stream_;
  base::TimePoint deadline_;
};

struct Listening {
  base::Fd fd;
  int port = 0;
};

base::StatusOr<Listening> listen_on(int port) {
  base::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return base::failed_errno(errno, "cannot make a socket");
  int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(fd.get(), 128) != 0) {
    return base::failed_errno(errno, cat("cannot listen on 127.0.0.1:", port));
  }
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return Listening{std::move(fd), ntohs(address.sin_port)};
}

bool means_us(std::string_view host, int port) {
  for (std::string_view name : {"127.0.0.1", "localhost", "[::1]"}) {
    if (host == name || host == cat(name, ":", port)) return true;
  }
  return false;
}

using Response = http::response<http::string_body>;

Response respond(http::status status, std::string_view type, std::string body) {
  Response response(status, 11);
  response.set(http::field::server, cat("rayo/", base::kVersion));
  response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
  response.set(http::field::cache_control, "no-store");
  response.keep_alive(false);
  response.body() = std::move(body);
  response.prepare_payload();
  return response;
}

Response error_response(http::status status, std::string_view text) {
  return respond(status, "text/plain; charset=utf-8", cat(text, "\n"));
}

std::string wire_form(Response& response) {
  std::string out;
  boost::system::error_code error;
  http::response_serializer<http::string_body> serializer(response);
  do {
    serializer.next(error, [&](boost::system::error_code&, const auto& buffers) {
      for (auto at = asio::buffer_sequence_begin(buffers); at != asio::buffer_sequence_end(buffers); ++at) {
        asio::const_buffer piece = *at;
        out.append(static_cast<const char*>(piece.data()), piece.size());
      }
      serializer.consume(beast::buffer_bytes(buffers));
    });
  } while (!error && !serializer.is_done());
  return out;
}

Response answer(const http::request_header<>& request, int port, const HttpServer::Options& options) {
  auto host = request[http::field::host];
  if (!means_us({host.data(), host.size()}, port)) {
    return error_response(http::status::forbidden, "this port answers to 127.0.0.1 and localhost alone");
  }
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    return error_response(http::status::method_not_allowed, "GET is all that is served here");
  }
  Response response;
  if (request.target() == "/healthz") {
    response = respond(http::status::ok, "text/plain; charset=utf-8", "ok\n");
  } else if (request.target() == "/api/status") {
    response = respond(http::status::ok, "application/json", options.status());
  } else {
    response = error_response(http::status::not_found, "there are /healthz and /api/status");
  }
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

}  // namespace

base::StatusOr<std::unique_ptr<HttpServer>> HttpServer::open(base::Loop& loop, Options options) {
  std::vector<std::string> notes;
  auto listening = listen_on(options.port);
  if (!listening.ok() && options.port != 0) {
    auto holder = rpc::port_holder(options.port);
    auto taken = cat("HTTP port ", options.port, " is taken", holder.empty() ? "" : cat(" by ", holder));
    if (options.port_fixed) {
      return base::failed(absl::StatusCode::kAlreadyExists, cat("cannot listen: ", taken),
                          "give another --http-port, or leave it out for any free one");
    }
    listening = listen_on(0);
    if (listening.ok()) notes.push_back(cat(taken, ": using ", listening->port));
  }
  if (!listening.ok()) return listening.status();
  int port = listening->port;
  return std::unique_ptr<HttpServer>(
      new HttpServer(loop, std::move(options), std::move(listening->fd), port, std::move(notes)));
}

HttpServer::HttpServer(base::Loop& loop, Options options, base::Fd listening, int port, std::vector<std::string> notes)
    : loop_(loop),
      options_(std::move(options)),
      acceptor_(loop, std::move(listening)),
      port_(port),
      notes_(std::move(notes)) {}

std::string HttpServer::url() const { return cat("http://127.0.0.1:", port_); }

void HttpServer::run() {
  while (!base::fiber_cancelled()) {
    auto fd = acceptor_.accept();
    if (!fd.ok()) return;
    if (connections_.size() >= kHttpConnections) {
      base::reset_connection(*std::move(fd));
      continue;
    }
    auto held = std::make_shared<base::Fd>(*std::move(fd));
    connections_.spawn("http", [this, held] { serve(std::move(*held)); });
  }
}

void HttpServer::serve(base::Fd fd) {
  auto deadline = loop_.deadline(kHttpRequestWithin);
  base::Stream stream(loop_, std::move(fd));
  BeastStream readable(stream, deadline);
  beast::flat_buffer buffer(kHttpHeaderBytes);
  http::request_parser<http::empty_body> parser;
  parser.header_limit(kHttpHeaderBytes);
  boost::system::error_code error;
  http::read_header(readable, buffer, parser, error);
  Response response;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    response = error_response(http::status::request_header_fields_too_large, "the request's headers are over 16 KiB");
  } else if (error == http::error::end_of_stream || error == asio::error::eof || error == asio::error::timed_out) {
    return;
  } else if (error) {
    response = error_response(http::status::bad_request, "this is no HTTP request");
  } else {
    response = answer(parser.get(), port_, options_);
  }
  (void)stream.write(wire_form(response), {}, deadline);
}

}  // namespace rayo::head
