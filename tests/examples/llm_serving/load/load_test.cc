// What a user loses if these fail: figures that cannot be compared with those that vLLM's tool prints.
#include <boost/asio.hpp>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

#include "examples/llm_serving/load/load_options.h"
#include "examples/llm_serving/load/load_report.h"
#include "examples/llm_serving/load/load_run.h"

namespace serving::load {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Answers each request for a chat with the same bytes, on 127.0.0.1 alone.
class CannedServer {
 public:
  explicit CannedServer(std::string events)
      : answer_("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + std::move(events)),
        acceptor_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    accept();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~CannedServer() {
    io_.stop();
    thread_.join();
  }
  std::string port() const { return std::to_string(acceptor_.local_endpoint().port()); }

 private:
  struct Visit {
    explicit Visit(tcp::socket connected) : socket(std::move(connected)) {}
    tcp::socket socket;
    std::string request;
  };
  void accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (error) return;
      auto visit = std::make_shared<Visit>(std::move(socket));
      asio::async_read_until(visit->socket, asio::dynamic_buffer(visit->request), "\"include_usage\":true}}",
                             [this, visit](const boost::system::error_code& end, size_t) {
                               if (!end) asio::write(visit->socket, asio::buffer(answer_));
                             });
      accept();
    });
  }

  const std::string answer_;
  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::thread thread_;
};

LoadResult loaded(const CannedServer& server) {
  LoadOptions options;
  options.host = "localhost";  // which may be ::1 first, where nobody listens
  options.port = server.port();
  options.model = "m";
  options.requests = 2;
  const auto result = run_load(options);
  if (const auto* problem = std::get_if<std::string>(&result)) {
    ADD_FAILURE() << *problem;
    return {};
  }
  return std::get<LoadResult>(result);
}

TEST(LoadRun, ReadsTheStreamsOfOtherServers) {
  // No space after "data:", thoughts under either name, a last event with no choices, and half of the counts.
  const CannedServer server(
      "data:{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\r\n\r\n"
      "data:{\"choices\":[{\"delta\":{\"reasoning_content\":\"Hm\"}}],\"usage\":null}\n\n"
      ": ping\n\n"
      "data: {\"choices\":[{\"delta\":{\"reasoning\":\"m\"}}]}\n\n"
      "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7}}\n\n"
      "data: [DONE]\n\n");
  const LoadResult result = loaded(server);
  ASSERT_EQ(result.samples.size(), 2u);
  for (const Sample& sample : result.samples) {
    EXPECT_EQ(sample.error, "");
    EXPECT_GE(sample.first_text, 0);
    EXPECT_EQ(sample.pieces.size(), 3u);
    EXPECT_EQ(sample.input_tokens, 7);
    EXPECT_EQ(sample.output_tokens, 3);  // its pieces, where nobody counts
  }
}

TEST(LoadRun, AnErrorInTheMiddleIsTold) {
  const CannedServer server(
      "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"
      "data: {\"error\":{\"message\":\"worker lost\",\"code\":500}}\n\n");
  for (const Sample& sample : loaded(server).samples) EXPECT_EQ(sample.error, "\"worker lost\"");
}

TEST(LoadReport, PercentilesAreNumpys) {
  EXPECT_EQ(percentile({}, 50), 0);
  EXPECT_EQ(percentile({7}, 99), 7);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile({1, 2, 3, 4, 5}, 90), 4.6);
}

std::vector<Sample> samples() {
  return {{.sent = 0,
           .first_text = 0.1,
           .ended = 0.5,
           .pieces = {0.1, 0.3, 0.5},
           .input_tokens = 10,
           .output_tokens = 5,
           .error = {}},
          {.sent = 0.4,
           .first_text = 0.6,
           .ended = 2.0,
           .pieces = {0.6, 2.0},
           .input_tokens = 20,
           .output_tokens = 1,
           .error = {}},
          {.sent = 1,
           .first_text = -1,
           .ended = 1.5,
           .pieces = {},
           .input_tokens = 0,
           .output_tokens = 0,
           .error = "HTTP 429"}};
}

void expect_line(const std::string& text, const std::string& name, const std::string& value) {
  const size_t at = text.find("\n" + name + ":");
  ASSERT_NE(at, std::string::npos) << name << " is not in\n" << text;
  const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  EXPECT_EQ(line.substr(line.find_last_of(' ') + 1), value) << line;
}

TEST(LoadReport, HasVllmsLines) {
  const std::string text = report_text({.url = "", .model = "m", .request_rate = 2, .max_concurrency = 4}, samples());
  EXPECT_TRUE(text.starts_with("============ Serving Benchmark Result ============\n")) << text;
  expect_line(text, "Successful requests", "2");
  expect_line(text, "Failed requests", "1");
  expect_line(text, "Maximum request concurrency", "4");
  expect_line(text, "Benchmark duration (s)", "2.00");
  expect_line(text, "Total input tokens", "30");
  expect_line(text, "Total generated tokens", "6");
  expect_line(text, "Output token throughput (tok/s)", "3.00");
  expect_line(text, "Peak concurrent requests", "2.00");
  expect_line(text, "Mean TTFT (ms)", "150.00");
  expect_line(text, "Mean TPOT (ms)", "100.00");  // of the first alone: 400 ms over 4 tokens after the first
  expect_line(text, "Median ITL (ms)", "200.00");
  expect_line(text, "P99 E2EL (ms)", "1589.00");
}

LoadOptions taken(const std::vector<std::string>& words) {
  const auto parsed = parse_load_options(words);
  if (const auto* wrong = std::get_if<WrongUse>(&parsed)) {
    ADD_FAILURE() << wrong->what;
    return {};
  }
  return std::get<LoadOptions>(parsed);
}

TEST(LoadOptions, AUrlIsTakenWithAndWithoutItsVersion) {
  for (const char* url : {"http://example.org:9000", "http://example.org:9000/v1", "http://example.org:9000/v1/"}) {
    const LoadOptions options = taken({"--url", url});
    EXPECT_EQ(options.host + " " + options.port + " " + options.path, "example.org 9000 ") << url;
  }
  EXPECT_EQ(taken({"--url=http://[::1]/api/v1"}).host, "::1");
  EXPECT_EQ(taken({"--url=http://[::1]/api/v1"}).port, "80");
  EXPECT_EQ(taken({"--url=http://[::1]/api/v1"}).path, "/api");
  EXPECT_EQ(taken({"--url", "http://a:1", "--request-rate", "inf"}).request_rate, 0);
  EXPECT_EQ(taken({"--url", "http://a:1", "--request-rate", "2.5"}).request_rate, 2.5);
}

TEST(LoadOptions, WrongUseIsTold) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"--url"},
                                             {"--url", "https://a"},
                                             {"--url", "http://"},
                                             {"--url", "http://a:1", "--num-prompts", "0"},
                                             {"--url", "http://a:1", "--num-prompts", "1.5"},
                                             {"--url", "http://a:1", "--request-rate", "-1"},
                                             {"--url", "http://a:1", "word"}}) {
    const auto parsed = parse_load_options(words);
    const auto* wrong = std::get_if<WrongUse>(&parsed);
    ASSERT_NE(wrong, nullptr) << (words.empty() ? "" : words.back());
    EXPECT_FALSE(wrong->next.empty());
  }
}

}  // namespace
}  // namespace serving::load
