#include "examples/llm_serving/gateway/http_server.h"

#include <algorithm>
#include <sys/resource.h>

namespace serving::gateway {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kSweep{250};
constexpr size_t kSpare = 128;  // descriptors for everything else

}  // namespace

size_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return before;
  return limit.rlim_max;
}

HttpServer::HttpServer(asio::io_context& io, HttpHandler& handler, const HttpOptions& options)
    : acceptor_(io), sweeper_(io), handler_(handler), options_(options) {
  const size_t descriptors = raise_descriptor_limit();
  options_.most_connections =
      std::min(options_.most_connections, descriptors > 2 * kSpare ? descriptors - kSpare : kSpare);
  const tcp::endpoint endpoint(asio::ip::make_address(options.address), options.port);
  acceptor_.open(endpoint.protocol());
  acceptor_.set_option(tcp::acceptor::reuse_address(true));
  acceptor_.bind(endpoint);
  acceptor_.listen(4096);
  port_ = acceptor_.local_endpoint().port();
  accept();
  sweep();
}

void HttpServer::stop_accepting() {
  error_code ignored;
  acceptor_.close(ignored);
}

void HttpServer::close() {
  stop_accepting();
  closed_ = true;
  sweeper_.cancel();
  for (const auto& connection : connections_) connection->close();
  connections_.clear();
}

void HttpServer::accept() {
  if (accepting_ || !acceptor_.is_open()) return;
  if (connections_.size() >= options_.most_connections && !make_room()) return;  // the sweep comes back to it
  accepting_ = true;
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    accepting_ = false;
    if (error) {  // closed, or out of descriptors: the sweep comes back to it
      make_room();
      return;
    }
    if (closed_) return;
    accepted(std::move(socket));
    accept();
  });
}

void HttpServer::accepted(tcp::socket socket) {
  connections_.push_back(std::make_shared<Connection>(std::move(socket), handler_, options_.limits));
  connections_.back()->start();
}

bool HttpServer::make_room() {
  sweep_once(std::chrono::steady_clock::now());
  if (connections_.size() < options_.most_connections) return true;
  const auto idle = std::find_if(connections_.begin(), connections_.end(), [](const auto& c) { return c->idle(); });
  if (idle == connections_.end()) return false;
  (*idle)->close();
  connections_.erase(idle);
  return true;
}

void HttpServer::sweep_once(Instant now) {
  for (auto at = connections_.begin(); at != connections_.end();) {
    Connection& connection = **at;
    if (!connection.closed() && connection.deadline() < now) connection.close();
    connection.probe(now);
    at = connection.closed() ? connections_.erase(at) : std::next(at);
  }
}

void HttpServer::sweep() {
  sweeper_.expires_after(kSweep);
  sweeper_.async_wait([this](const error_code& error) {
    if (error || closed_) return;  // a cancel comes too late for an expiry that is on its way
    sweep_once(std::chrono::steady_clock::now());
    accept();
    sweep();
  });
}

}  // namespace serving::gateway
