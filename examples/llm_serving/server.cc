#include "examples/llm_serving/server.h"

#include <boost/asio.hpp>
#include <cstdio>
#include <fstream>
#include <future>
#include <iterator>
#include <unistd.h>

#include "examples/llm_serving/deployment.h"
#include "examples/llm_serving/endpoint_actor.h"
#include "examples/llm_serving/engine/model_file.h"
#include "examples/llm_serving/gateway/http_server.h"
#include "examples/llm_serving/gateway/json_text.h"
#include "examples/llm_serving/gateway/service.h"
#include "examples/llm_serving/llama_language.h"
#include "examples/llm_serving/model_path.h"

namespace serving {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using std::chrono::milliseconds;

constexpr milliseconds kTick{100};
constexpr milliseconds kReport{500};
constexpr std::chrono::seconds kClusterPatience{10};
constexpr int32_t kTries = 3;               // deaths of each replica before the first is ready
constexpr std::chrono::seconds kDrain{30};  // for running requests, after the first signal

// What was checked before anything started.
struct Prepared {
  std::string path;
  std::string name;
  ModelFile file;
  std::shared_ptr<const gateway::Language> language;
  std::vector<std::string> keys;
};

Ending failed(const std::string& what, const std::string& next) { return {.code = 1, .what = what, .next = next}; }

std::string endpoint_url(const std::string& host, uint16_t port) {
  const std::string shown = host == "0.0.0.0" || host == "::" ? "127.0.0.1" : host;
  return "http://" + (shown.find(':') == std::string::npos ? shown : "[" + shown + "]") + ":" + std::to_string(port);
}

class Server {
 public:
  Server(const ServeOptions& options, Prepared prepared, std::function<void(uint16_t)> ready)
      : options_(options),
        ready_(std::move(ready)),
        prepared_(std::move(prepared)),
        service_({.loopback = is_loopback(options.host), .api_keys = prepared_.keys}),
        http_(io_, service_,
              {.address = options.host == "localhost" ? "127.0.0.1" : options.host, .port = options.port}),
        deployment_(io_,
                    {.model_path = prepared_.path,
                     .max_context = options.max_context,
                     .parallel = options.parallel,
                     .threads = options.threads},
                    needed_bytes(prepared_.file, options.max_context)),
        model_(service_.add_model(prepared_.name, prepared_.language, deployment_)) {}

  Ending run() {
    const Result<int32_t> automatic = automatic_replicas(prepared_.file, deployment_.bytes());
    if (!automatic)
      return failed("cannot serve " + prepared_.name + ": " + automatic.problem().what, automatic.problem().next);
    const int32_t replicas = options_.replicas.value_or(std::max(*automatic, 1));
    spawn_endpoint();
    rayo::ActorOptions beside;
    beside.resources.cpus = 0;
    beside.node = rayo::context().node;
    deployment_.attach(model_.dispatcher, rayo::spawn<ModelSource>(beside, prepared_.file.paths));
    deployment_.scale(replicas);
    signals_.async_wait([this](const boost::system::error_code& error, int) {
      if (!error) stop();
    });
    std::thread reporter([this] { report(); });
    tick();
    io_.run();
    stopped_ = true;
    reporter.join();
    close();
    return ending_;
  }

 private:
  void spawn_endpoint() {
    rayo::ActorOptions place = {.name = endpoint_name(http_.port()), .name_space = kServeNamespace};
    place.resources.cpus = 0;
    place.node = rayo::context().node;
    endpoint_ = rayo::spawn<EndpointActor>(place);
  }

  // Every coroutine ends before what it uses does.
  void close() {
    http_.close();
    timer_.cancel();
    signals_.cancel();
    io_.restart();
    io_.run_for(std::chrono::seconds(5));
  }

  // 0: one for each node.
  void scale(int32_t replicas) {
    if (replicas == 0) {
      const Result<int32_t> more = automatic_replicas(prepared_.file, deployment_.bytes());
      replicas = deployment_.wanted() + (more ? *more : 0);
    }
    deployment_.scale(replicas);
  }

  void tick() {
    timer_.expires_after(kTick);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error || stopped_) return;
      service_.tick(std::chrono::steady_clock::now());
      deployment_.tick();
      show_progress();
      if (!announced_ && deployment_.deaths() > kTries * deployment_.wanted()) {
        ending_ = failed("cannot serve " + prepared_.name + ": no replica starts: " + deployment_.last_problem(),
                         "rayo logs");
        return io_.stop();
      }
      if (stopping_ && (service_.flights() == 0 || std::chrono::steady_clock::now() > stop_at_)) return io_.stop();
      tick();
    });
  }

  // The second time: at once.
  void stop() {
    if (stopping_) return io_.stop();
    stopping_ = true;
    stop_at_ = std::chrono::steady_clock::now() + kDrain;
    service_.close();
    http_.stop_accepting();
    signals_.async_wait([this](const boost::system::error_code& error, int) {
      if (!error) io_.stop();
    });
  }

  void show_progress() {
    const bool terminal = isatty(STDERR_FILENO) != 0;
    if (announced_) return;
    if (service_.ready()) {
      if (terminal) std::fputs("\r\033[K", stderr);
      announced_ = true;
      return announce();
    }
    double progress = 0;
    for (const gateway::ReplicaView& replica : model_.dispatcher.router().replicas())
      progress = std::max(progress, replica.status.load_progress);
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(progress * kWidth);
    if (terminal)
      std::fprintf(stderr, "\rloading %s [%s%s] %3d %%", prepared_.name.c_str(), std::string(filled, '#').c_str(),
                   std::string(kWidth - filled, ' ').c_str(), static_cast<int>(progress * 100));
  }

  void announce() {
    const std::string url = endpoint_url(options_.host, http_.port());
    const std::string key = prepared_.keys.empty() ? "" : " -H 'Authorization: Bearer KEY'";
    std::printf("%s answers at %s/v1\n", prepared_.name.c_str(), url.c_str());
    std::printf(
        "try: curl %s/v1/chat/completions -H 'Content-Type: application/json'%s -d '{\"model\": \"%s\", "
        "\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n",
        url.c_str(), key.c_str(), prepared_.name.c_str());
    if (is_loopback(options_.host))
      std::printf("to open it to your network: --host 0.0.0.0 with --api-key-file FILE (or --no-auth)\n");
    std::fflush(stdout);
    if (ready_) ready_(http_.port());
  }

  std::string describe() {
    return gateway::to_json(json::object{{"schema", 1},
                                         {"model", prepared_.name},
                                         {"url", endpoint_url(options_.host, http_.port())},
                                         {"ready", service_.ready()},
                                         {"stopping", stopping_},
                                         {"wanted_replicas", deployment_.wanted()},
                                         {"requests", static_cast<int64_t>(service_.flights())},
                                         {"replays_total", static_cast<int64_t>(model_.dispatcher.router().moves())},
                                         {"replicas", deployment_.describe()}});
  }

  // Of a thread of its own: tells the endpoint's actor how things are, and fetches what it was asked.
  void report() {
    auto heard = std::chrono::steady_clock::now();
    std::string silence;
    while (!stopped_) {
      const auto made = std::make_shared<std::promise<std::string>>();
      asio::post(io_, [this, made] { made->set_value(describe()); });
      auto text = made->get_future();
      while (text.wait_for(kTick) != std::future_status::ready) {
        if (stopped_) return;
      }
      const std::string problem = exchange(text.get());
      if (problem.empty())
        heard = std::chrono::steady_clock::now();
      else
        silence = problem;
      if (std::chrono::steady_clock::now() - heard > kClusterPatience) {
        asio::post(io_, [this, silence] {
          ending_ = {.code = 3, .what = "the cluster of this endpoint is gone: " + silence, .next = "rayo status"};
          io_.stop();
        });
        return;
      }
      std::this_thread::sleep_for(kReport);
    }
  }

  // What is wrong, or nothing.
  std::string exchange(const std::string& told) {
    try {
      const auto orders = endpoint_.call<&EndpointActor::exchange>(told).try_get(kReport * 10);
      if (!orders) {
        if (orders.error().kind == rayo::ErrorKind::kActorDied) spawn_endpoint();
        return orders.error().text;
      }
      for (const EndpointOrder& order : *orders)
        asio::post(io_, [this, order] { order.stop ? stop() : scale(order.replicas); });
      return {};
    } catch (const rayo::Error& error) {
      return error.text();
    }
  }

  const ServeOptions& options_;
  const std::function<void(uint16_t)> ready_;
  const Prepared prepared_;
  asio::io_context io_;
  asio::signal_set signals_{io_, SIGINT, SIGTERM};
  asio::steady_timer timer_{io_};
  gateway::Service service_;
  gateway::HttpServer http_;
  Deployment deployment_;
  gateway::Model& model_;
  rayo::ActorHandle<EndpointActor> endpoint_;
  Ending ending_;
  bool announced_ = false;
  bool stopping_ = false;
  gateway::Instant stop_at_{};
  std::atomic<bool> stopped_{false};
};

std::variant<Prepared, Ending> prepare(const ServeOptions& options) {
  Prepared prepared;
  const Result<std::string> path = find_model(options.model);
  if (!path) return failed("cannot serve " + options.model + ": " + path.problem().what, path.problem().next);
  prepared.path = *path;
  prepared.name = options.name.empty() ? model_name_of(*path) : options.name;
  const Result<ModelFile> file = check_model_file(*path);
  if (!file) return failed("cannot serve " + *path + ": " + file.problem().what, file.problem().next);
  prepared.file = *file;
  auto language = load_language(*path, options.max_context);
  if (!language) return failed("cannot serve " + *path + ": " + language.problem().what, language.problem().next);
  prepared.language = *language;
  if (options.api_key_file.empty()) return prepared;
  std::ifstream keys(options.api_key_file);
  if (!keys) return failed("cannot read " + options.api_key_file + ": no such file", "a file with one key a line");
  prepared.keys = gateway::parse_keys(std::string(std::istreambuf_iterator<char>(keys), {}));
  if (prepared.keys.empty()) return failed(options.api_key_file + " has no key", "one key a line");
  return prepared;
}

void print_status(const std::string& report) {
  const json::value status = json::parse(report);
  std::printf("%s at %s/v1: %s, %lld requests, %lld replayed\n", status.at("model").as_string().c_str(),
              status.at("url").as_string().c_str(), status.at("ready").as_bool() ? "ready" : "loading",
              static_cast<long long>(status.at("requests").to_number<int64_t>()),
              static_cast<long long>(status.at("replays_total").to_number<int64_t>()));
  std::printf("%-8s %-12s %-34s %9s %8s %8s %8s\n", "replica", "state", "node", "tokens/s", "running", "waiting",
              "cache");
  for (const json::value& replica : status.at("replicas").as_array()) {
    const auto cells = replica.at("kv_tokens").to_number<double>();
    const double used = cells > 0 ? replica.at("kv_used_tokens").to_number<double>() / cells : 0;
    std::printf("%-8d %-12s %-34s %9.1f %8d %8d %7.0f%%\n", replica.at("id").to_number<int>(),
                replica.at("state").as_string().c_str(), replica.at("node").as_string().c_str(),
                replica.at("tokens_per_second").to_number<double>(), replica.at("running").to_number<int>(),
                replica.at("waiting").to_number<int>(), used * 100);
  }
}

}  // namespace

Ending serve(const ServeOptions& options, const std::function<void(uint16_t port)>& ready) {
  auto prepared = prepare(options);
  if (auto* ending = std::get_if<Ending>(&prepared)) return *ending;
  try {
    Server server(options, std::move(std::get<Prepared>(prepared)), ready);
    return server.run();
  } catch (const boost::system::system_error& error) {
    return failed(
        "cannot listen on " + options.host + ":" + std::to_string(options.port) + ": " + error.code().message(),
        "--port N, or --port 0 for any free one");
  }
}

Ending control(const ServeOptions& options) {
  try {
    const auto endpoint = rayo::actor<EndpointActor>(endpoint_name(options.port), kServeNamespace);
    if (options.verb == ServeOptions::Verb::kStatus) {
      const std::string report = endpoint.call<&EndpointActor::read>().get(std::chrono::seconds(5));
      if (options.json)
        std::puts(report.c_str());
      else
        print_status(report);
      return {};
    }
    const EndpointOrder order = {.stop = options.verb == ServeOptions::Verb::kStop,
                                 .replicas = options.replicas.value_or(0)};
    endpoint.call<&EndpointActor::ask>(order).get(std::chrono::seconds(5));
    return {};
  } catch (const rayo::Invalid&) {
    return failed("nothing serves at port " + std::to_string(options.port) + " of this cluster",
                  "rayo serve MODEL, or --port N of the one that is meant");
  }
}

}  // namespace serving
