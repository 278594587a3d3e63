// What a user loses if these fail: a client that speaks HTTP in its own way gets no answer, or one that has left or reads nothing is
// worked for all the same.
#include "examples/llm_serving/gateway/http_connection.h"

#include "tests/examples/llm_serving/gateway/served.h"

namespace serving::gateway {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using HttpConnectionTest = ServiceTest;

TEST_F(HttpConnectionTest, AClientThatLeavesFreesItsPlaceAtOnce) {
  start();
  replicas(1);
  for (const char* more : {"", R"(,"stream":true)"}) {
    Client client(server_->port());
    client.send(post("/v1/chat/completions", chat("Hi", 3000, more)));
    wait_for([this] { return engines_->working().has_value(); }, "the engine works");
    client.close();
    wait_for([this] { return !engines_->working(); }, "the engine stops working for a client that left");
  }
  EXPECT_EQ(engines_->cancelled, 2u);
}

TEST_F(HttpConnectionTest, AClientThatSendsNothingMoreGetsItsAnswers) {
  start();
  replicas(1);
  Client whole(server_->port());
  whole.send(post("/v1/chat/completions", chat("Hi", 100)) + "\r\n" + post("/tokenize", R"({"prompt":"a"})") + "\r\n");
  whole.finish();
  const std::string both = whole.rest();  // to the end of the connection
  EXPECT_THAT(both, HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(both, HasSubstr(expected_text("Hi\n", 100)));
  EXPECT_THAT(both, HasSubstr(R"("tokens":[97])"));
  EXPECT_THAT(both, Not(HasSubstr("HTTP/1.1 400"))) << "an empty line is no request";
  for (const char* version : {"1.0", "1.1"}) {
    Client stream(server_->port());
    const std::string body = chat("Hi", 100, R"(,"stream":true)");
    stream.send("POST /v1/chat/completions HTTP/" + std::string(version) +
                "\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    stream.until("data: ");  // HTTP/1.0 has nothing that could be asked before
    stream.finish();
    EXPECT_THAT(stream.rest(), HasSubstr("data: [DONE]\n\n")) << version;
  }
}

TEST_F(HttpConnectionTest, ARequestThatEndsTooEarlyIsTold) {
  start();
  for (const char* begin :
       {"GET /health HTTP/1.1\r\nHo", "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{}"}) {
    Client client(server_->port());
    client.send(begin);
    client.finish();
    EXPECT_THAT(client.rest(), testing::AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("ends before it is whole")))
        << begin;
  }
}

TEST_F(HttpConnectionTest, OneThatSendsNothingMoreAndLeavesFreesItsPlace) {
  start();
  replicas(1);
  for (const char* more : {"", R"(,"stream":true)"}) {
    on_io([this] { engines_->stalled = true; });
    Client client(server_->port());
    client.send(post("/v1/chat/completions", chat("Hi", 3900, more)));
    client.finish();
    client.until("HTTP/1.1 100 Continue\r\n\r\n");  // it is asked, and is there
    wait_for([this] { return engines_->working().has_value(); }, "the engine works");
    on_io([this] { engines_->stalled = false; });
    if (*more != '\0') client.until("data: ");
    client.close();
    wait_for([this] { return !engines_->working(); }, "the engine stops working for a client that left");
  }
  EXPECT_EQ(engines_->cancelled, 2u);
}

TEST_F(HttpConnectionTest, AQuietStreamPings) {
  start({.ping = std::chrono::seconds(1)});
  replicas(1);
  on_io([this] { engines_->stalled = true; });
  Client client(server_->port());
  client.send(post("/v1/chat/completions", chat("Hi", 2, R"(,"stream":true)")));
  EXPECT_THAT(client.until(": ping\n\n"), HasSubstr(": ping"));
  on_io([this] { engines_->stalled = false; });
  EXPECT_THAT(client.until("[DONE]"), HasSubstr("[DONE]"));
}

TEST_F(HttpConnectionTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  replicas(1);
  Client client(server_->port());
  client.send(post("/tokenize", R"({"prompt":"a"})") + post("/v1/chat/completions", chat("Hi", 5)) +
              post("/tokenize", R"({"prompt":"b"})"));
  EXPECT_EQ(json::serialize(client.answer().value().at("tokens")), "[97]");
  EXPECT_EQ(client.answer().value().at("usage").at("completion_tokens").as_int64(), 5);
  EXPECT_EQ(json::serialize(client.answer().value().at("tokens")), "[98]");
}

TEST_F(HttpConnectionTest, BodiesInChunksAndInDropsAreRead) {
  start();
  replicas(1);
  Client client(server_->port());
  const std::string head = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string body = "5\r\n{\"pro\r\n9\r\nmpt\":\"a\"}\r\n0\r\n\r\n";
  for (const char byte : head + body) client.send(std::string_view(&byte, 1));
  EXPECT_EQ(json::serialize(client.answer().value().at("tokens")), "[97]");
  client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 14\r\n\r\n");
  EXPECT_THAT(client.until("\r\n\r\n"), StartsWith("HTTP/1.1 100 Continue"));
  client.send(R"({"prompt":"b"})");
  EXPECT_EQ(json::serialize(client.answer().value().at("tokens")), "[98]");
}

TEST_F(HttpConnectionTest, TooMuchIsRefused) {
  start({}, {.header_bytes = 4096, .body_bytes = 10'000});
  EXPECT_EQ(ask(post("/tokenize", std::string(10'001, ' '))).status, 413);
  EXPECT_EQ(ask("GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: " + std::string(5000, 'a') + "\r\n\r\n").status, 431);
  EXPECT_EQ(ask("GET /" + std::string(9000, 'a')).status, 431);
}

TEST_F(HttpConnectionTest, OldClientsGetAStreamThatEndsWithTheConnection) {
  start();
  replicas(1);
  Client client(server_->port());
  const std::string body = chat("Hi", 4, R"(,"stream":true)");
  client.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  const std::string all = client.rest();
  EXPECT_THAT(all, HasSubstr("Connection: close"));
  EXPECT_THAT(all, Not(HasSubstr("chunked")));
  EXPECT_THAT(all, testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(HttpConnectionTest, SilentConnectionsGiveWay) {
  start({}, {.first_byte = std::chrono::seconds(1)}, 20);
  replicas(1);
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 60; ++i) silent.push_back(std::make_unique<Client>(server_->port()));
  EXPECT_EQ(ask(post("/v1/chat/completions", chat("Hi", 3))).status, 200);
  EXPECT_LE(on_io([this] { return server_->connections(); }), 20u);
  wait_for([this] { return server_->connections() == 0; }, "silent connections are closed");
}

TEST_F(HttpConnectionTest, AClientThatReadsNothingIsGivenUpBeforeItsAnswerIsWhole) {
  start({}, {}, 16384, milliseconds(0));
  replicas(1);
  Client client(server_->port(), 4096);
  client.send(post("/v1/completions", R"({"model":"m","prompt":"a","max_tokens":4000,"stream":true})"));
  wait_for([this] { return engines_->submitted == 1; }, "it is with an engine");
  wait_for([this] { return !engines_->working(); }, "its engine has ended it");
  EXPECT_EQ(engines_->cancelled, 1u) << "800 KiB were written to nobody";
}

TEST_F(HttpConnectionTest, AClientThatReadsNothingIsGivenUp) {
  start({}, {}, 16384, milliseconds(0));
  replicas(1);
  Client client(server_->port());
  std::string many = post("/v1/completions", R"({"model":"m","prompt":"a","n":16,"max_tokens":4000,"stream":true})");
  client.send(many);
  // Each of its choices is cancelled once 256 KiB wait for it.
  wait_for([this] { return engines_->cancelled >= 16; }, "the engine stops working for who does not read");
  EXPECT_EQ(ask(get("/health")).status, 200);
}

}  // namespace
}  // namespace serving::gateway
