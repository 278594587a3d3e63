// One client's connection: HTTP/1.1 with keep-alive, pipelining and chunked bodies, in a coroutine that lives while there
// is something to answer (an idle connection costs a socket and some 500 bytes).
//
//   Limits: header and body sizes, times to send them, bytes read ahead of the request being answered.
//   A client that closes is noticed at once, also while its request is worked on: reading never stops.
//   One that only sends nothing more (shutdown of one direction, `nc -N`) gets its answers. The first bytes of both are the
//   same, so it is asked: something that means nothing (100 Continue, a comment in a stream) is written, and the system of a
//   client that has left refuses it. HTTP/1.0 has no such word before its answer: there it counts as gone.
//
// Exchange is what a handler sees of it: the request, and the ways to answer. Everything runs on the io thread.
#pragma once

#include <boost/asio.hpp>
#include <boost/asio/spawn.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/llm_serving/gateway/router.h"

namespace serving::gateway {

using HttpRequest = boost::beast::http::request<boost::beast::http::string_body>;
using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpLimits {
  size_t header_bytes = 32 << 10;
  size_t body_bytes = 16 << 20;
  size_t read_ahead_bytes = 64 << 10;    // of pipelined requests
  std::chrono::seconds first_byte{15};   // a fresh connection that sends nothing
  std::chrono::seconds header_time{15};  // from a request's first byte to its header's last
  std::chrono::seconds body_pause{30};   // between two pieces of a body
  std::chrono::seconds write_pause{30};  // a client that reads nothing
  std::chrono::seconds keep_alive{75};
};

class Connection;

class Exchange {
 public:
  Exchange(Connection& connection, const HttpRequest& request, boost::asio::yield_context yield);

  const HttpRequest& request() const { return request_; }
  std::string_view target() const;               // the path, without a query
  const std::string& id() const { return id_; }  // x-request-id
  Instant received() const;                      // its last byte
  std::string client() const;                    // whose turn it is: what set_client() said, else its address
  void set_client(std::string name) { client_ = std::move(name); }
  void add_header(std::string name, std::string value);

  // The whole answer; nothing may follow.
  void respond(int status, std::string_view type, std::string_view body);
  // A stream of events. send() answers false once the client is gone, or reads so slowly that it was given up.
  void begin_events();
  bool send(std::string_view data);
  void end_events();

  bool begun() const { return begun_; }
  bool answered() const { return answered_; }
  bool gone() const;

  // Suspends until waker() is called, the client is gone, or it is `deadline`; false where the client is gone.
  bool wait_until(Instant deadline);
  // Ends a wait; a call before the wait is not lost. May outlive the connection; io thread only.
  std::function<void()> waker() const;
  // Runs `work` on `pool`, off the io thread and its small stacks; throws what it throws.
  void run_on(boost::asio::thread_pool& pool, std::function<void()> work);

 private:
  std::string head(int status, std::string_view type, std::string_view length) const;

  Connection& connection_;
  const HttpRequest& request_;
  boost::asio::yield_context yield_;
  std::string id_;
  std::string client_;
  Headers headers_;
  bool begun_ = false;
  bool answered_ = false;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Answers; may suspend. Not answered: 500.
  virtual void handle(Exchange& exchange) = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  Connection(Socket socket, HttpHandler& handler, const HttpLimits& limits);

  void start();
  void close();
  bool closed() const { return closed_; }
  bool idle() const { return !busy_; }
  Instant deadline() const { return deadline_; }
  // Asks again, now and then, whether a client that sends nothing more is there.
  void probe(Instant now);

 private:
  friend class Exchange;

  void arm();  // one wait for something to read, unless enough is there
  void readable();
  void half_close();
  void serve(boost::asio::yield_context yield);
  bool read_request(boost::asio::yield_context yield, HttpRequest& request);
  void refuse(boost::asio::yield_context yield, const boost::system::error_code& error);
  bool write(boost::asio::yield_context yield, std::string_view data);
  bool wait_until(boost::asio::yield_context yield, Instant deadline);
  // Until wake(), also after the client is gone.
  void suspend(boost::asio::yield_context yield);
  void wake();
  void linger();

  Socket socket_;
  HttpHandler& handler_;
  const HttpLimits& limits_;
  boost::asio::steady_timer wakeup_;
  std::string inbox_;  // read and not yet parsed
  Instant last_read_{};
  Instant received_{};  // the last byte of the request that is being answered
  Instant deadline_;    // when the sweep closes it
  // What may be written at this moment and means nothing. Empty: nothing need be. None: there is no such thing.
  std::optional<std::string_view> probe_ = "";
  Instant probed_{};
  bool armed_ = false;
  bool busy_ = false;         // a coroutine serves it
  bool half_closed_ = false;  // the client sends nothing more
  bool closed_ = false;       // by either side
  bool woken_ = false;
  bool lingering_ = false;  // answered for the last time; what still comes is dropped
  bool keep_alive_ = true;
};

}  // namespace serving::gateway
