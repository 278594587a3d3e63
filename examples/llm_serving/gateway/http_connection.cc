#include "examples/llm_serving/gateway/http_connection.h"

#include <array>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <exception>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <random>
#include <sys/socket.h>

#include "examples/llm_serving/gateway/api_error.h"

namespace serving::gateway {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kStack = 128 << 10;        // of a coroutine; only touched pages cost
constexpr size_t kPiece = 64 << 10;         // one read
constexpr int kUnsent = 128 << 10;          // bytes that the kernel takes ahead of a client; of its own it takes 4 MiB
constexpr std::chrono::seconds kLinger{2};  // for the other side to close
constexpr Instant kNever = Instant::max();
constexpr std::chrono::seconds kProbeEvery{2};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kComment = ": ping\n\n";
constexpr std::string_view kCommentChunk = "8\r\n: ping\n\n\r\n";

Instant after(std::chrono::seconds time) { return std::chrono::steady_clock::now() + time; }

std::string random_id() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string id = "req_";
  for (uint64_t word : {random(), random()}) {
    for (int i = 0; i < 16; ++i, word >>= 4) id += kDigits[word & 15];
  }
  return id;
}

// A client's own id, where it is one word of a sane length: it stands in a header and in logs.
std::string request_id(const HttpRequest& request) {
  const auto given = request.find("x-request-id");
  if (given == request.end() || given->value().empty() || given->value().size() > 128) return random_id();
  for (const char c : given->value()) {
    if (c <= ' ' || c > '~') return random_id();
  }
  return std::string(given->value());
}

int status_of(const error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  return 400;
}

}  // namespace

Exchange::Exchange(Connection& connection, const HttpRequest& request, asio::yield_context yield)
    : connection_(connection), request_(request), yield_(yield), id_(request_id(request)) {
  add_header("x-request-id", id_);
  if (request.version() >= 11)
    connection.probe_ = kContinue;
  else
    connection.probe_.reset();
}

std::string_view Exchange::target() const {
  const std::string_view whole(request_.target().data(), request_.target().size());
  return whole.substr(0, whole.find('?'));
}

Instant Exchange::received() const { return connection_.received_; }

std::string Exchange::client() const {
  if (!client_.empty()) return client_;
  error_code error;
  return connection_.socket_.remote_endpoint(error).address().to_string();
}

void Exchange::add_header(std::string name, std::string value) {
  headers_.emplace_back(std::move(name), std::move(value));
}

std::string Exchange::head(int status, std::string_view type, std::string_view length) const {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
  out += std::string_view(http::obsolete_reason(static_cast<http::status>(status)));
  out += "\r\nServer: rayo\r\n";
  if (!type.empty()) out.append("Content-Type: ").append(type).append("\r\n");
  out.append(length);
  for (const auto& [name, value] : headers_) out.append(name).append(": ").append(value).append("\r\n");
  out += connection_.keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return out;
}

void Exchange::respond(int status, std::string_view type, std::string_view body) {
  answered_ = true;
  connection_.probe_ = "";
  const bool bodiless = status == 204;
  std::string out = head(status, type, bodiless ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n");
  if (request_.method() != http::verb::head && !bodiless) out += body;
  connection_.write(yield_, out);
}

void Exchange::begin_events() {
  begun_ = answered_ = true;
  connection_.probe_ = "";
  add_header("Cache-Control", "no-cache");
  add_header("X-Accel-Buffering", "no");  // nginx passes events on at once
  const bool chunked = request_.version() >= 11;
  if (!chunked) connection_.keep_alive_ = false;  // its end is the connection's
  connection_.write(yield_,
                    head(200, "text/event-stream; charset=utf-8", chunked ? "Transfer-Encoding: chunked\r\n" : ""));
  connection_.probe_ = chunked ? kCommentChunk : kComment;
}

bool Exchange::send(std::string_view data) {
  if (data.empty()) return !gone();
  if (request_.version() < 11) return connection_.write(yield_, data);
  std::array<char, 20> size{};
  std::string piece(size.data(), static_cast<size_t>(std::snprintf(size.data(), size.size(), "%zx\r\n", data.size())));
  piece.append(data).append("\r\n");
  return connection_.write(yield_, piece);
}

void Exchange::end_events() {
  connection_.probe_ = "";
  if (request_.version() >= 11) connection_.write(yield_, "0\r\n\r\n");
}

bool Exchange::gone() const { return connection_.closed_; }

bool Exchange::wait_until(Instant deadline) { return connection_.wait_until(yield_, deadline); }

std::function<void()> Exchange::waker() const {
  return [weak = connection_.weak_from_this()] {
    if (const auto connection = weak.lock()) connection->wake();
  };
}

void Exchange::run_on(asio::thread_pool& pool, std::function<void()> work) {
  struct Outcome {
    std::exception_ptr error;
    bool done = false;
  };
  const auto outcome = std::make_shared<Outcome>();
  const auto executor = connection_.socket_.get_executor();
  asio::post(pool, [outcome, executor, work = std::move(work), wake = waker()] {
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    asio::post(executor, [outcome, error, wake] {
      outcome->error = error;
      outcome->done = true;
      wake();
    });
  });
  // Not left before: `work` uses what stands on this stack.
  while (!outcome->done) connection_.suspend(yield_);
  if (outcome->error) std::rethrow_exception(outcome->error);
}

Connection::Connection(Socket socket, HttpHandler& handler, const HttpLimits& limits)
    : socket_(std::move(socket)),
      handler_(handler),
      limits_(limits),
      wakeup_(socket_.get_executor()),
      deadline_(after(limits.first_byte)) {}

void Connection::start() {
  error_code error;
  socket_.non_blocking(true, error);
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsent, sizeof kUnsent);
  arm();
}

void Connection::close() {
  closed_ = true;
  error_code error;
  socket_.close(error);
  wake();
}

void Connection::arm() {
  if (armed_ || closed_ || inbox_.size() >= limits_.read_ahead_bytes) return;
  if (half_closed_ && !lingering_) return;  // there is nothing more to read, again and again
  armed_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->armed_ = false;
    if (error) return self->close();
    self->readable();
  });
}

void Connection::readable() {
  static thread_local std::array<char, kPiece> piece;
  error_code error;
  const size_t bytes = socket_.read_some(asio::buffer(piece), error);
  if (error == asio::error::eof && busy_ && probe_) return half_close();
  if (error && error != asio::error::would_block) return close();
  if (!lingering_) inbox_.append(piece.data(), bytes);
  last_read_ = std::chrono::steady_clock::now();
  arm();
  if (busy_ || inbox_.empty()) return wake();
  busy_ = true;
  asio::spawn(
      socket_.get_executor(), std::allocator_arg, boost::context::protected_fixedsize_stack(kStack),
      [self = shared_from_this()](asio::yield_context yield) { self->serve(yield); }, asio::detached);
}

void Connection::half_close() {
  half_closed_ = true;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const error_code& error) {
    if (!error) self->close();
  });
  probe(std::chrono::steady_clock::now());
  wake();  // who waits for the rest of a request waits for nothing
}

void Connection::probe(Instant now) {
  if (!half_closed_ || closed_ || now - probed_ < kProbeEvery || probe_.value_or("").empty()) return;
  probed_ = now;
  error_code error;
  const size_t written = socket_.write_some(asio::buffer(*probe_), error);
  if (error == asio::error::would_block) return;  // it has something to refuse already
  if (error || written < probe_->size()) close();
}

// Answers what is there, one request after the other.
void Connection::serve(asio::yield_context yield) {
  while (!closed_) {
    inbox_.erase(0, inbox_.find_first_not_of("\r\n"));  // an empty line before a request is nothing
    if (inbox_.empty()) break;
    HttpRequest request;
    if (!read_request(yield, request)) break;
    deadline_ = kNever;
    keep_alive_ = request.keep_alive();
    Exchange exchange(*this, request, yield);
    try {
      handler_.handle(exchange);
      if (!exchange.answered()) exchange.respond(500, "application/json", server_error("There was no answer.").body());
    } catch (const std::exception& error) {
      keep_alive_ = false;
      if (!exchange.answered()) exchange.respond(500, "application/json", server_error(error.what()).body());
    }
    probe_ = "";
    if (!keep_alive_) break;
    arm();
  }
  busy_ = false;
  inbox_.shrink_to_fit();
  deadline_ = after(limits_.keep_alive);
  if (!keep_alive_ || half_closed_) linger();
  arm();
}

// Closing over unread bytes would reset the connection, and the client might not get to read its answer.
void Connection::linger() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  lingering_ = true;
  inbox_.clear();
  deadline_ = after(kLinger);
}

bool Connection::read_request(asio::yield_context yield, HttpRequest& request) {
  http::request_parser<http::string_body> parser;
  parser.eager(true);
  parser.header_limit(static_cast<uint32_t>(limits_.header_bytes));
  parser.body_limit(limits_.body_bytes);
  deadline_ = after(limits_.header_time);
  bool continued = false;
  const Instant begin = std::chrono::steady_clock::now();  // what is there already waited for an answer before it
  while (true) {
    error_code error;
    const size_t used = inbox_.empty() ? 0 : parser.put(asio::buffer(inbox_), error);
    inbox_.erase(0, used);
    if (error && error != http::error::need_more) return refuse(yield, error), false;
    if (parser.is_done()) break;
    if (!parser.is_header_done() && inbox_.size() > limits_.header_bytes)
      return refuse(yield, http::error::header_limit), false;
    if (parser.is_header_done()) {
      deadline_ = after(limits_.body_pause);
      if (!continued && parser.get()[http::field::expect] == "100-continue") {
        continued = true;
        if (!write(yield, kContinue)) return false;
        deadline_ = after(limits_.body_pause);
      }
    }
    if (used > 0 && !inbox_.empty()) continue;  // a chunked body advances in steps
    arm();
    if (half_closed_) return refuse(yield, http::error::partial_message), false;
    if (!wait_until(yield, kNever)) return false;
  }
  received_ = std::max(begin, last_read_);
  request = parser.release();
  return true;
}

void Connection::refuse(asio::yield_context yield, const error_code& error) {
  keep_alive_ = false;
  HttpRequest nothing;
  Exchange exchange(*this, nothing, yield);
  const int status = status_of(error);
  std::string text = "This is not HTTP/1.1: " + error.message() + ".";
  if (status == 413) text = "The body is longer than " + std::to_string(limits_.body_bytes) + " bytes.";
  if (status == 431) text = "The header is longer than " + std::to_string(limits_.header_bytes) + " bytes.";
  if (error == http::error::partial_message) text = "The request ends before it is whole.";
  exchange.respond(status, "application/json", bad_request(std::move(text)).body());
}

bool Connection::write(asio::yield_context yield, std::string_view data) {
  if (closed_) return false;
  const Instant before = deadline_;
  const auto probe = std::exchange(probe_, "");  // nothing may stand between two parts of this
  deadline_ = after(limits_.write_pause);
  error_code error;
  while (!data.empty() && !error && !closed_) {
    // Most answers fit the socket's buffer: no suspension then.
    size_t written = socket_.write_some(asio::buffer(data), error);
    if (error == asio::error::would_block) {
      error.clear();
      socket_.async_wait(Socket::wait_write, yield[error]);
      continue;
    }
    data.remove_prefix(written);
    if (written > 0) deadline_ = after(limits_.write_pause);
  }
  deadline_ = before;
  probe_ = probe;
  if (error && !closed_) close();
  return !closed_;
}

bool Connection::wait_until(asio::yield_context yield, Instant deadline) {
  while (!woken_ && !closed_ && std::chrono::steady_clock::now() < deadline) {
    error_code error;
    wakeup_.expires_at(deadline);
    wakeup_.async_wait(yield[error]);
  }
  woken_ = false;
  return !closed_;
}

void Connection::suspend(asio::yield_context yield) {
  while (!woken_) {
    error_code error;
    wakeup_.expires_at(kNever);
    wakeup_.async_wait(yield[error]);
  }
  woken_ = false;
}

void Connection::wake() {
  woken_ = true;
  wakeup_.cancel();
}

}  // namespace serving::gateway
