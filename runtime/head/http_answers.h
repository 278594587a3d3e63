// What the HTTP port says to one request, without I/O: /healthz and /api/status.
//
// On loopback nobody needs a token, but the Host header must mean this machine: a page in a browser cannot reach the
// port by a name of its own. Who comes from elsewhere must show the cluster's token and is told nothing without it, not
// even the version.
#pragma once

#include <boost/beast/http.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/rpc/token.h"

namespace rayo::head {

using HttpRequest = boost::beast::http::request_header<>;
using HttpResponse = boost::beast::http::response<boost::beast::http::string_body>;

struct HttpPages {
  int port = 0;
  rpc::Secret token_secret{};
  std::function<std::string()> status;  // the document of /api/status
};

HttpResponse answer_on_loopback(const HttpRequest& request, const HttpPages& pages);
HttpResponse answer_with_token(const HttpRequest& request, const HttpPages& pages);
// In place of an answer, to a request that cannot be read; says nothing about the cluster.
HttpResponse refusal(boost::beast::http::status status, std::string_view text);

// The bytes of a response.
std::string wire_form(HttpResponse& response);

}  // namespace rayo::head
