#include "runtime/head/http_answers.h"

#include <boost/asio/buffer.hpp>

#include "runtime/base/text.h"
#include "runtime/base/version.h"

namespace rayo::head {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using base::cat;

namespace {

constexpr std::string_view kText = "text/plain; charset=utf-8";

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

HttpResponse respond(http::status status, std::string_view type, std::string body) {
  HttpResponse response(status, 11);
  response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
  response.set(http::field::cache_control, "no-store");
  response.keep_alive(false);
  response.body() = std::move(body);
  response.prepare_payload();
  return response;
}

bool means_us(std::string_view host, int port) {
  for (std::string_view name : {"127.0.0.1", "localhost", "[::1]"}) {
    if (host == name || host == cat(name, ":", port)) return true;
  }
  return false;
}

HttpResponse page(const HttpRequest& request, const HttpPages& pages) {
  if (request.method() != http::verb::get && request.method() != http::verb::head)
    return refusal(http::status::method_not_allowed, "GET is all that is served here");
  HttpResponse response;
  if (request.target() == "/healthz") {
    response = respond(http::status::ok, kText, "ok\n");
  } else if (request.target() == "/api/status") {
    response = respond(http::status::ok, "application/json", pages.status());
  } else {
    response = refusal(http::status::not_found, "there are /healthz and /api/status");
  }
  response.set(http::field::server, cat("rayo/", base::kVersion));
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

// What stands behind "Bearer ", in any case of its letters (RFC 6750, RFC 9110).
std::string_view bearer_of(const HttpRequest& request) {
  constexpr std::string_view kScheme = "bearer ";
  std::string_view given = view(request[http::field::authorization]);
  if (base::lower(given.substr(0, kScheme.size())) != kScheme) return {};
  return base::trim(given.substr(kScheme.size()));
}

HttpResponse unauthorized(std::string_view challenge, std::string_view text) {
  auto response = refusal(http::status::unauthorized, text);
  response.set(http::field::www_authenticate, beast::string_view(challenge.data(), challenge.size()));
  return response;
}

}  // namespace

HttpResponse refusal(http::status status, std::string_view text) { return respond(status, kText, cat(text, "\n")); }

HttpResponse answer_on_loopback(const HttpRequest& request, const HttpPages& pages) {
  if (!means_us(view(request[http::field::host]), pages.port))
    return refusal(http::status::forbidden, "this port answers to 127.0.0.1 and localhost alone");
  return page(request, pages);
}

HttpResponse answer_with_token(const HttpRequest& request, const HttpPages& pages) {
  std::string_view token = bearer_of(request);
  if (token.empty())
    return unauthorized("Bearer realm=\"rayo\"",
                        "the cluster's token is needed: Authorization: Bearer TOKEN\n"
                        "try: `rayo token` on the head's machine prints it");
  if (!rpc::is_secret(token, pages.token_secret))
    return unauthorized("Bearer realm=\"rayo\", error=\"invalid_token\"",
                        "that is not this cluster's token\n"
                        "try: `rayo token` on the head's machine prints the right one");
  return page(request, pages);
}

std::string wire_form(HttpResponse& response) {
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

}  // namespace rayo::head
