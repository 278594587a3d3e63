// What a user loses if these fail: who reaches the HTTP port reads the cluster without its token, or its owner cannot.
#include "runtime/head/http_answers.h"

#include <gtest/gtest.h>

#include "runtime/base/text.h"

namespace rayo::head {
namespace {

namespace http = boost::beast::http;

struct HttpAnswers : ::testing::Test {
  rpc::Token token = rpc::Token::make({});
  HttpPages pages{8265, token.secret, [] { return std::string("{}"); }};

  static HttpRequest get(const std::string& target, const std::string& host, const std::string& authorization = {}) {
    HttpRequest request;
    request.method(http::verb::get);
    request.target(target);
    request.set(http::field::host, host);
    if (!authorization.empty()) request.set(http::field::authorization, authorization);
    return request;
  }
  unsigned with(const std::string& authorization) {
    return answer_with_token(get("/healthz", "10.0.0.5", authorization), pages).result_int();
  }
  std::string secret() const { return token.text().substr(0, 64); }
};

TEST_F(HttpAnswers, TheTokenOpensAllAndNothingElseDoes) {
  EXPECT_EQ(with("Bearer " + secret()), 200u);
  EXPECT_EQ(with("bearer   " + token.text() + " "), 200u);
  std::string wrong = secret();
  wrong[63] = wrong[63] == '0' ? '1' : '0';
  for (const std::string& bad :
       {std::string(), std::string("Bearer"), std::string("Bearer "), "Bearer " + wrong, "Bearer " + secret().substr(1),
        "Bearer " + secret() + "0", "Basic " + secret(), secret(), "Bearer ." + secret()})
    EXPECT_EQ(with(bad), 401u) << bad;
}

TEST_F(HttpAnswers, AStrangerIsToldNothing) {
  for (const char* target : {"/healthz", "/api/status", "/nothing"}) {
    auto response = answer_with_token(get(target, "127.0.0.1"), pages);
    EXPECT_EQ(response.result(), http::status::unauthorized);
    EXPECT_EQ(response.count(http::field::server), 0u);
    EXPECT_EQ(response[http::field::www_authenticate], "Bearer realm=\"rayo\"");
    EXPECT_NE(response.body().find("try: `rayo token`"), std::string::npos);
  }
}

TEST_F(HttpAnswers, LoopbackAnswersToItsOwnNamesAlone) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:8265", "localhost:8265", "[::1]:8265"})
    EXPECT_EQ(answer_on_loopback(get("/healthz", host), pages).result_int(), 200u) << host;
  for (const char* host : {"", "evil.example", "127.0.0.1:80", "localhost.evil.example"})
    EXPECT_EQ(answer_on_loopback(get("/healthz", host), pages).result_int(), 403u) << host;
}

TEST_F(HttpAnswers, OnlyGetAndHeadAndTwoPages) {
  EXPECT_EQ(answer_on_loopback(get("/", "localhost"), pages).result_int(), 404u);
  auto request = get("/api/status", "localhost");
  request.method(http::verb::post);
  EXPECT_EQ(answer_on_loopback(request, pages).result_int(), 405u);
  request.method(http::verb::head);
  auto response = answer_on_loopback(request, pages);
  EXPECT_TRUE(response.body().empty());
  EXPECT_EQ(response[http::field::content_length], "2");
}

}  // namespace
}  // namespace rayo::head
