// OpenAI's API over HTTP: finds the handler, checks who asks, and answers errors in one place.
//
//   Service service(options);
//   std::shared_ptr<Model> model = service.add_model("smollm2", language, link);
//   HttpServer server(io, service, {.port = 8000});
//
// One owner: the io thread. Templates and tokens are computed on a thread of its own; those with grammars, which may take a second
// each before they are refused, on another, and those of long bodies on a third: nobody waits behind a stranger's book.
#pragma once

#include <boost/asio.hpp>
#include <map>
#include <memory>
#include <string>

#include "examples/llm_serving/gateway/access.h"
#include "examples/llm_serving/gateway/dispatcher.h"
#include "examples/llm_serving/gateway/http_connection.h"
#include "examples/llm_serving/gateway/language.h"

namespace serving::gateway {

struct Model {
  Model(std::string model_name, std::shared_ptr<const Language> its_language, EngineLink& link, int64_t since)
      : name(std::move(model_name)), language(std::move(its_language)), created(since), dispatcher(name, link) {}
  const std::string name;
  const std::shared_ptr<const Language> language;
  const int64_t created;  // seconds since the epoch
  Dispatcher dispatcher;
};

struct ServiceOptions {
  bool loopback = true;
  std::vector<std::string> api_keys;
  std::chrono::seconds ping{10};  // a stream that has nothing to say says so this often
};

class Service : public HttpHandler {
 public:
  explicit Service(ServiceOptions options)
      : options_(std::move(options)), access_(options_.loopback, options_.api_keys) {}
  ~Service() override {
    workbench_.join();
    grammars_.join();
    long_texts_.join();
  }

  std::shared_ptr<Model> add_model(const std::string& name, std::shared_ptr<const Language> language, EngineLink& link);
  // Its files are looked at, and fetched where they are not here (0..1): until add_model() clients are told that it loads.
  void expect_model(const std::string& name, double fetched) { expected_[name] = fetched; }
  // From now on it is unknown to clients; what runs goes on. Its name may be used again after remove_model().
  void retire_model(const std::string& name);
  // Of a retired one without flights: its link is not used any more.
  void remove_model(const std::string& name) { retired_.erase(name); }
  void handle(Exchange& exchange) override;
  void tick(Instant now);
  // Nothing new is taken; what runs goes on.
  void close();
  size_t flights() const;
  // Some model answers, and so does each that did before: one that is added takes nothing from the others.
  bool ready() const;

 private:
  struct Route;
  static const std::vector<Route> kRoutes;

  bool admit(Exchange& exchange, const Credentials& credentials);
  void route(Exchange& exchange);
  void health(Exchange& exchange);
  void readiness(Exchange& exchange);
  void list_models(Exchange& exchange);
  void one_model(Exchange& exchange, const std::string& name);
  void metrics(Exchange& exchange);
  void chat(Exchange& exchange);
  void completion(Exchange& exchange);
  void embeddings(Exchange& exchange);
  void tokenize(Exchange& exchange);
  void detokenize(Exchange& exchange);

  // A handler keeps what it gets: the model may be retired while it waits.
  std::shared_ptr<Model> model(const std::string& name);
  std::shared_ptr<Model> model_or_only(const std::string& name);
  boost::json::object describe(const Model& model) const;
  boost::asio::thread_pool& pool_for(const Exchange& exchange, bool grammar = false);
  std::vector<Token> tokens_of(Exchange& exchange, const Model& model, const Prompt& prompt);
  template <class Body>
  Body read(Exchange& exchange, Body (*parse)(std::string_view));

  ServiceOptions options_;
  Access access_;
  std::map<std::string, double> expected_;
  std::map<std::string, std::shared_ptr<Model>> models_;
  std::map<std::string, std::shared_ptr<Model>> retired_;
  boost::asio::thread_pool workbench_{1};
  boost::asio::thread_pool grammars_{1};
  boost::asio::thread_pool long_texts_{1};
};

}  // namespace serving::gateway
