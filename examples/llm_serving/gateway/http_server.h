// Accepts connections and closes those that waste their place. One io thread.
//
//   HttpServer server(io, handler, {.address = "127.0.0.1", .port = 8000});
//   io.run();
//
// More connections than `most_connections`: the one that has been idle longest gives way; where all are busy the new
// one waits in the kernel's queue.
#pragma once

#include <list>
#include <memory>

#include "examples/llm_serving/gateway/http_connection.h"

namespace serving::gateway {

struct HttpOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;                // 0: any free one
  size_t most_connections = 16384;  // cut to what RLIMIT_NOFILE allows
  HttpLimits limits;
};

class HttpServer {
 public:
  // Throws boost::system::system_error where the address cannot be had.
  HttpServer(boost::asio::io_context& io, HttpHandler& handler, const HttpOptions& options);

  uint16_t port() const { return port_; }
  size_t connections() const { return connections_.size(); }
  // Accepts nothing more; what is being answered goes on.
  void stop_accepting();
  // Ends every connection.
  void close();

 private:
  void accept();
  void accepted(boost::asio::ip::tcp::socket socket);
  void sweep();
  bool make_room();
  void sweep_once(Instant now);

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer sweeper_;
  HttpHandler& handler_;
  HttpOptions options_;
  uint16_t port_ = 0;
  bool accepting_ = false;
  bool closed_ = false;
  std::list<std::shared_ptr<Connection>> connections_;  // the oldest first
};

// As many descriptors as this process may have. Answers how many that is.
size_t raise_descriptor_limit();

}  // namespace serving::gateway
