#include "examples/llm_serving/load/load_run.h"

#include <boost/asio.hpp>
#include <boost/asio/spawn.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <random>

#include "examples/llm_serving/printed.h"

namespace serving::load {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace json = boost::json;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::seconds kPatience{600};  // for one request
constexpr uint64_t kMostBody = 1ull << 30;

// Where servers put a piece of output; a model's thoughts are output too.
const char* const kTexts[] = {"/choices/0/delta/content", "/choices/0/delta/reasoning_content",
                              "/choices/0/delta/reasoning"};

const char* const kWords[] = {"river",  "stone",  "light", "house",   "garden", "winter", "music",
                              "letter", "window", "bread", "train",   "sea",    "hill",   "market",
                              "friend", "story",  "paper", "morning", "cloud",  "field"};

http::request<http::string_body> request_of(const LoadOptions& options, http::verb verb, const std::string& target,
                                            std::string body) {
  http::request<http::string_body> request(verb, options.path + target, 11);
  request.set(http::field::host, options.host + ":" + options.port);
  request.set(http::field::content_type, "application/json");
  if (!options.key.empty()) request.set(http::field::authorization, "Bearer " + options.key);
  request.body() = std::move(body);
  request.prepare_payload();
  return request;
}

// The texts of a stream's events.
class EventReader {
 public:
  // Calls `event` with the text of each `data:` line that is complete.
  template <class F>
  void feed(std::string_view piece, const F& event) {
    pending_ += piece;
    size_t begin = 0;
    for (size_t end = 0; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string_view line(pending_.data() + begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.starts_with("data:")) continue;
      line.remove_prefix(5);
      event(line.starts_with(' ') ? line.substr(1) : line);
    }
    pending_.erase(0, begin);
  }

 private:
  std::string pending_;
};

class Load {
 public:
  explicit Load(const LoadOptions& options) : options_(options), random_(static_cast<uint64_t>(options.seed)) {}

  std::variant<LoadResult, std::string> run() {
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options_.host, options_.port, error);
    if (error) return "cannot find " + options_.host + ": " + error.message();
    // The first that answers: localhost may be ::1 before it is 127.0.0.1.
    tcp::socket probe(io_);
    server_ = asio::connect(probe, found, error);
    if (error) return "cannot reach " + options_.host + ":" + options_.port + ": " + error.message();
    model_ = options_.model;
    if (model_.empty()) {
      const std::string problem = first_model(std::move(probe));
      if (!problem.empty()) return problem;
    }
    samples_.resize(static_cast<size_t>(options_.requests));
    begin_ = std::chrono::steady_clock::now();
    start_all();
    io_.run();
    return LoadResult{.facts = {.url = "http://" + options_.host + ":" + options_.port + options_.path,
                                .model = model_,
                                .request_rate = options_.request_rate,
                                .max_concurrency = static_cast<int32_t>(options_.max_concurrency)},
                      .samples = std::move(samples_)};
  }

 private:
  double now() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

  // What is wrong; empty: model_ is set.
  std::string first_model(tcp::socket connected) {
    error_code error;
    beast::tcp_stream stream(std::move(connected));
    http::write(stream, request_of(options_, http::verb::get, "/v1/models", ""), error);
    beast::flat_buffer buffer;
    http::response<http::string_body> response;
    if (!error) http::read(stream, buffer, response, error);
    const json::value body = error ? json::value() : json::parse(response.body(), error);
    const json::value* name = error ? nullptr : body.find_pointer("/data/0/id", error);
    if (name == nullptr || !name->is_string())
      return options_.host + ":" + options_.port + " names no model at /v1/models (HTTP " +
             std::to_string(response.result_int()) + ")";
    model_ = name->as_string().c_str();
    return "";
  }

  // Closed loop: so many coroutines, each with one request after another. Open loop: one for each arrival.
  void start_all() {
    if (options_.request_rate <= 0) {
      const int64_t lanes =
          options_.max_concurrency > 0 ? std::min(options_.max_concurrency, options_.requests) : options_.requests;
      for (int64_t i = 0; i < lanes; ++i)
        asio::spawn(
            io_,
            [this](asio::yield_context yield) {
              while (next_ < samples_.size()) one(next_++, yield);
            },
            fail_loudly);
      return;
    }
    asio::spawn(
        io_,
        [this](asio::yield_context yield) {
          std::exponential_distribution<double> gap(options_.request_rate);
          asio::steady_timer timer(io_);
          double at = 0;
          while (next_ < samples_.size()) {
            arrived_.push_back(next_++);
            take_arrivals();
            at += gap(random_);
            timer.expires_at(begin_ +
                             std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(at)));
            timer.async_wait(yield);
          }
        },
        fail_loudly);
  }

  // Those that came while max_concurrency were under way wait here, and their clock runs from when they are sent, as vLLM's does.
  void take_arrivals() {
    while (!arrived_.empty() && (options_.max_concurrency == 0 || running_ < options_.max_concurrency)) {
      const size_t which = arrived_.front();
      arrived_.erase(arrived_.begin());
      ++running_;
      asio::spawn(
          io_,
          [this, which](asio::yield_context yield) {
            one(which, yield);
            --running_;
            take_arrivals();
          },
          fail_loudly);
    }
  }

  static void fail_loudly(const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
  }

  std::string prompt() {
    std::string text;
    for (int64_t i = 0; i < options_.input_words; ++i)
      text += std::string(i > 0 ? " " : "") + kWords[random_() % std::size(kWords)];
    return text;
  }

  void one(size_t which, asio::yield_context yield) {
    Sample& sample = samples_[which];
    const json::object body = {{"model", model_},
                               {"messages", json::array{json::object{{"role", "user"}, {"content", prompt()}}}},
                               {"max_tokens", options_.output_tokens},
                               {"temperature", 0},
                               {"ignore_eos", true},
                               {"stream", true},
                               {"stream_options", json::object{{"include_usage", true}}}};
    const auto request = request_of(options_, http::verb::post, "/v1/chat/completions", json::serialize(body));
    error_code error;
    beast::tcp_stream stream(io_);
    stream.expires_after(kPatience);
    stream.async_connect(server_, yield[error]);
    sample.sent = now();
    if (!error) http::async_write(stream, request, yield[error]);
    if (!error) read_stream(stream, sample, yield, error);
    sample.ended = now();
    if (error && sample.error.empty()) sample.error = error.message();
    if (sample.error.empty() && sample.first_text < 0) sample.error = "no text came";
    if (sample.output_tokens == 0) sample.output_tokens = static_cast<int64_t>(sample.pieces.size());
  }

  void read_stream(beast::tcp_stream& stream, Sample& sample, asio::yield_context yield, error_code& error) {
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMostBody);
    http::async_read_header(stream, buffer, parser, yield[error]);
    if (error) return;
    const bool good = parser.get().result_int() == 200;
    EventReader events;
    while (!parser.is_done()) {
      http::async_read_some(stream, buffer, parser, yield[error]);
      if (error) break;
      if (!good) continue;
      events.feed(parser.get().body(), [&](std::string_view text) { take(text, sample); });
      parser.get().body().clear();
    }
    if (error == http::error::end_of_stream && parser.is_done()) error = {};
    if (!good)
      sample.error = "HTTP " + std::to_string(parser.get().result_int()) + ": " + parser.get().body().substr(0, 300);
  }

  void take(std::string_view text, Sample& sample) {
    if (text == "[DONE]") return;
    error_code error;
    const json::value event = json::parse(text, error);
    if (error) return;
    if (const json::value* message = event.find_pointer("/error/message", error)) {
      sample.error = json::serialize(*message);
      return;
    }
    for (const char* place : kTexts) {
      const json::value* output = event.find_pointer(place, error);
      if (output == nullptr || !output->is_string() || output->get_string().empty()) continue;
      sample.pieces.push_back(now());
      if (sample.first_text < 0) sample.first_text = sample.pieces.back();
      break;
    }
    count(event.find_pointer("/usage/prompt_tokens", error), sample.input_tokens);
    count(event.find_pointer("/usage/completion_tokens", error), sample.output_tokens);
  }

  static void count(const json::value* number, int64_t& tokens) {
    if (number != nullptr && number->is_int64()) tokens = number->get_int64();
  }

  const LoadOptions& options_;
  std::mt19937_64 random_;
  asio::io_context io_;
  tcp::endpoint server_;
  std::string model_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<Sample> samples_;
  size_t next_ = 0;
  std::vector<size_t> arrived_;
  int64_t running_ = 0;
};

}  // namespace

std::variant<LoadResult, std::string> run_load(const LoadOptions& options) { return Load(options).run(); }

int bench(const std::vector<std::string>& arguments) {
  const auto parsed = parse_load_options(arguments);
  if (const auto* wrong = std::get_if<WrongUse>(&parsed)) {
    std::fprintf(stderr, "rayo: cannot bench: %s\ntry: %s\n", wrong->what.c_str(), wrong->next.c_str());
    return 2;
  }
  const auto& options = std::get<LoadOptions>(parsed);
  if (options.help) {
    print("%s", load_usage().c_str());
    return 0;
  }
  const auto result = run_load(options);
  if (const auto* problem = std::get_if<std::string>(&result)) {
    std::fprintf(stderr, "rayo: cannot bench: %s\ntry: %s\n", problem->c_str(),
                 "--url http://HOST:PORT of a server that is ready");
    return 3;
  }
  const auto& [facts, samples] = std::get<LoadResult>(result);
  print("%s", (options.json ? report_json(facts, samples) + "\n" : report_text(facts, samples)).c_str());
  std::string first_error;
  for (const Sample& sample : samples) {
    if (first_error.empty()) first_error = sample.error;
  }
  if (first_error.empty()) return 0;
  std::fprintf(stderr, "rayo: some requests failed: %s\ntry: fewer at a time, or a lower --request-rate\n",
               first_error.c_str());
  return 1;
}

}  // namespace serving::load
