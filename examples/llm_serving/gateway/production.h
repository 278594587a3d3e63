// A request for text on its way: its choices, each a flight, read as they come and answered as one body or as a stream
// of events.
#pragma once

#include <memory>
#include <vector>

#include "examples/llm_serving/gateway/http_connection.h"
#include "examples/llm_serving/gateway/responses.h"
#include "examples/llm_serving/gateway/service.h"

namespace serving::gateway {

class Production {
 public:
  Production(Exchange& exchange, Model& model, Answers answers, const Generation& generation,
             std::chrono::seconds ping);
  ~Production();  // leaves every flight
  Production(const Production&) = delete;
  Production& operator=(const Production&) = delete;

  // Tokens of prompts, each told once, however many choices it has.
  void count_prompt(size_t tokens) { usage_.prompt_tokens += static_cast<int64_t>(tokens); }
  // One choice, which begins when its turn comes. `echo`: text that stands before its output.
  void add(Request request, std::unique_ptr<OutputReader> reader, std::string echo = {});
  // Until the end. Throws the ApiError that ends it before anything was answered.
  void run();

 private:
  struct Part {
    Request request;                 // until it begins
    std::vector<Token> prompt;       // whose logprobs are told, too
    std::shared_ptr<Flight> flight;  // null until then
    std::unique_ptr<OutputReader> reader;
    Choice choice;
    int64_t tokens = 0;  // of output
    bool called_tools = false;
    bool done = false;
  };

  void submit_more();
  void begin();
  bool advance(std::string& out);  // reads what has come; false: nothing had
  void consume(Part& part, int32_t index, const Event& event, std::string& out);
  void tell(Part& part, int32_t index, const OutputReader::News& news, const std::vector<TokenDetail>& details,
            std::string& out);
  int64_t first_offset(const Part& part) const;
  TokenDetail detail_of(Token token, float logprob, const std::vector<TokenLogprob>& top) const;
  void add_prompt_details(const Part& part, const Event& event, std::vector<TokenDetail>& details) const;
  bool done() const;
  void finish(const char* reason);
  void note_own_time();
  void fail(const ApiError& error);

  Exchange& exchange_;
  Model& model_;
  Answers answers_;
  Answers::Api api_;
  const Generation& generation_;
  std::chrono::seconds ping_;
  std::vector<Part> parts_;
  size_t submitted_ = 0;  // of parts_, the first ones
  Usage usage_;
  Instant start_;
  Instant first_token_{};
  double queued_s_ = -1;  // of the first choice
  Instant arrived_{};     // of the first event that advance() read last
  bool own_time_noted_ = false;
  bool recorded_ = false;
};

}  // namespace serving::gateway
