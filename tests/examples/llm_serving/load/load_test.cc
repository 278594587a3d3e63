// What a user loses if these fail: figures that cannot be compared with those that vLLM's tool prints.
#include <gtest/gtest.h>

#include "examples/llm_serving/load/load_options.h"
#include "examples/llm_serving/load/load_report.h"

namespace serving::load {
namespace {

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
