// The service over a real socket, with engines that need no model, and a client that says bytes.
#pragma once

#include <boost/asio.hpp>
#include <boost/json.hpp>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "examples/llm_serving/gateway/http_server.h"
#include "examples/llm_serving/gateway/service.h"
#include "tests/examples/llm_serving/gateway/fake_engines.h"

namespace serving::gateway {

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
  boost::json::value value() const { return boost::json::parse(body); }
};

// A client that says bytes and reads bytes.
class Client {
 public:
  // `reads_ahead`: bytes that its system takes before it asks for them; 0: as usual.
  explicit Client(uint16_t port, int reads_ahead = 0) : socket_(io_) {
    socket_.open(boost::asio::ip::tcp::v4());
    if (reads_ahead > 0) socket_.set_option(boost::asio::socket_base::receive_buffer_size(reads_ahead));
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"), port});
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  void send(std::string_view bytes) { boost::asio::write(socket_, boost::asio::buffer(bytes)); }
  std::string until(std::string_view mark) {
    while (in_.find(mark) == std::string::npos) {
      if (!more()) break;
    }
    const size_t end = in_.find(mark);
    const std::string out = in_.substr(0, end == std::string::npos ? end : end + mark.size());
    in_.erase(0, out.size());
    return out;
  }
  std::string rest() {
    while (more()) {
    }
    return std::move(in_);
  }
  // An answer with Content-Length, or in chunks.
  Answer answer() {
    Answer answer;
    answer.head = until("\r\n\r\n");
    if (answer.head.size() > 12) answer.status = std::stoi(answer.head.substr(9, 3));
    if (answer.head.find("chunked") != std::string::npos) {
      while (true) {
        const size_t size = std::stoul("0" + until("\r\n"), nullptr, 16);
        answer.body += take(size);
        take(2);
        if (size == 0) return answer;
      }
    }
    const size_t length = answer.head.find("Content-Length: ");
    if (length != std::string::npos) answer.body = take(std::stoul(answer.head.substr(length + 16)));
    return answer;
  }
  void close() { socket_.close(); }
  // Sends nothing more, and reads on.
  void finish() { socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send); }

 private:
  bool more() {
    char piece[4096];
    boost::system::error_code error;
    const size_t bytes = socket_.read_some(boost::asio::buffer(piece), error);
    in_.append(piece, bytes);
    return !error;
  }
  std::string take(size_t bytes) {
    while (in_.size() < bytes && more()) {
    }
    std::string out = in_.substr(0, bytes);
    in_.erase(0, bytes);
    return out;
  }
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  std::string in_;
};

inline std::string post(const std::string& path, const std::string& body, const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
inline std::string get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}
inline std::string chat(const std::string& text, int tokens, const std::string& more = "") {
  return R"({"model":"m","messages":[{"role":"user","content":")" + text + R"("}],"max_tokens":)" +
         std::to_string(tokens) + more + "}";
}

// What the events of a stream say together.
inline std::string streamed_text(const std::string& body) {
  std::string text;
  size_t at = 0;
  while ((at = body.find("data: {", at)) != std::string::npos) {
    const size_t end = body.find("\n\n", at);
    const boost::json::value event = boost::json::parse(body.substr(at + 6, end - at - 6));
    for (const boost::json::value& choice : event.at("choices").as_array()) {
      if (const boost::json::value* content = choice.at("delta").as_object().if_contains("content"))
        text += std::string(content->as_string());
    }
    at = end;
  }
  return text;
}

class ServiceTest : public testing::Test {
 protected:
  void start(ServiceOptions options = {}, HttpLimits limits = {}, size_t most_connections = 16384,
             std::chrono::milliseconds pace = std::chrono::milliseconds(2)) {
    engines_ = std::make_unique<FakeEngines>(io_, pace);
    service_ = std::make_unique<Service>(std::move(options));
    model_ = service_->add_model("m", language_, *engines_);
    engines_->attach(model_->dispatcher);
    server_ = std::make_unique<HttpServer>(io_, *service_,
                                           HttpOptions{.most_connections = most_connections, .limits = limits});
    engines_->run();
    thread_ = std::thread([this] { io_.run(); });
  }
  // Runs on the io thread and answers what it answers.
  template <class F>
  auto on_io(F work) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto result = task.get_future();
    boost::asio::post(io_, [&task] { task(); });
    return result.get();
  }
  void replicas(int count) {
    on_io([this, count] {
      for (ReplicaId id = 1; id <= count; ++id) engines_->add(id);
    });
  }
  template <class F>
  void wait_for(F condition, const char* what) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!on_io(condition)) ASSERT_LT(std::chrono::steady_clock::now(), deadline) << what;
  }
  Answer ask(const std::string& request) {
    Client client(server_->port());
    client.send(request);
    return client.answer();
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    on_io([this] {
      server_->close();
      engines_->stop();
    });
    thread_.join();  // every connection's coroutine has ended
    EXPECT_EQ(service_->flights(), 0u);
  }

  std::shared_ptr<const Language> language_ = std::make_shared<ByteLanguage>();
  boost::asio::io_context io_;
  std::unique_ptr<FakeEngines> engines_;
  std::unique_ptr<Service> service_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

}  // namespace serving::gateway
