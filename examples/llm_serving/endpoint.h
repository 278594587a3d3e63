// A running endpoint: HTTP, models that come and go, and the mailbox where `rayo serve` finds it.
//
//   Endpoint endpoint({.host = "127.0.0.1", .port = 8000});
//   std::thread thread([&] { ending = endpoint.run(); });
//   endpoint.mailbox().call<&EndpointActor::ask>(order);
//
// It runs in the process of the command, or, detached, in an actor's (gateway_actor.h). Two threads of its own: one exchanges
// with the mailbox, one looks at the files of models that are added; all else is the thread of run().
#pragma once

#include <atomic>
#include <boost/asio.hpp>
#include <boost/json.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "examples/llm_serving/deployment.h"
#include "examples/llm_serving/ending.h"
#include "examples/llm_serving/endpoint_actor.h"
#include "examples/llm_serving/gateway/http_server.h"
#include "examples/llm_serving/gateway/service.h"

namespace serving {

struct EndpointOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  std::vector<std::string> keys = {};
  bool detached = false;  // mailbox and engines outlive this process
};

// http://HOST:PORT, as a client of this machine writes it.
std::string endpoint_url(const std::string& host, uint16_t port);

class Endpoint {
 public:
  // Throws boost::system::system_error where nothing can listen there, rayo::Error where there is no mailbox to be had.
  explicit Endpoint(EndpointOptions options);
  ~Endpoint();

  uint16_t port() const { return http_.port(); }
  const Mailbox& mailbox() const { return mailbox_; }
  // Until stop() or an order to stop, or what makes it impossible. What was told to the mailbox before, by an endpoint that
  // died, is taken up.
  Ending run();
  // Any thread. Nothing new is taken, what runs may end within 30 s; the second time: at once.
  void stop();
  // Any thread. An order is in the mailbox: it need not wait for the next look.
  void look_soon() { tell_soon(); }

 private:
  // What the files of a model tell, and what was started for it.
  struct Prepared {
    ModelFile file;
    std::string path;
    std::shared_ptr<const gateway::Language> language;
    rayo::ActorHandle<ModelSource> source;
    int32_t replicas = 0;
  };
  struct Served {
    ModelSpec spec;
    uint64_t order = 0;                      // 0: of an endpoint before this one
    std::unique_ptr<Deployment> deployment;  // null while the files are looked at
    std::shared_ptr<gateway::Model> model;
    double fetched = 0;  // of its files, while they are not here
    bool ready = false;  // it was
    bool leaving = false;
  };
  struct Failure {
    uint64_t order = 0;
    Problem problem;
  };

  void open_mailbox();
  void take(const EndpointOrder& order);
  void add(const ModelSpec& spec, uint64_t order);
  Result<Prepared> prepare(const ModelSpec& spec);
  void fetched(const std::string& name, double part);
  void prepared(const std::string& name, Result<Prepared> prepared);
  void scale(const EndpointOrder& order);
  void leave(Served& served);
  Served* find(const EndpointOrder& order);
  void fail(uint64_t order, Problem problem);
  void stop_here();
  void tick();
  bool tick(const std::string& name, Served& served);
  void tell_soon();
  void exchange_all();
  std::string exchange(const EndpointTold& told);
  EndpointTold describe() const;
  boost::json::array describe_models() const;
  void close();

  const EndpointOptions options_;
  boost::asio::io_context io_;
  boost::asio::steady_timer timer_{io_};
  gateway::Service service_;
  gateway::HttpServer http_;
  std::map<std::string, Served> models_;
  Mailbox mailbox_;
  uint64_t done_ = 0;  // the last order
  std::deque<Failure> failures_;
  Ending ending_;
  bool stopping_ = false;
  bool removing_ = false;  // a model was taken off: the last one takes the endpoint with it
  gateway::Instant stop_at_{};
  gateway::Instant empty_since_;
  std::atomic<bool> stopped_{false};
  std::mutex soon_mutex_;
  std::condition_variable soon_;
  bool news_ = false;  // guarded by soon_mutex_
  boost::asio::thread_pool files_{1};
};

}  // namespace serving
