#include "examples/llm_serving/endpoint.h"

#include <cstdio>
#include <future>

#include "examples/llm_serving/gateway/json_text.h"
#include "examples/llm_serving/llama_language.h"
#include "examples/llm_serving/serve_options.h"

namespace serving {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kTick{100};
constexpr milliseconds kReport{500};
constexpr seconds kMailboxPatience{5};
constexpr seconds kClusterPatience{10};
constexpr int32_t kTries = 3;          // deaths of each replica before the first is ready
constexpr seconds kDrain{30};          // for running requests, after the first stop()
constexpr seconds kEmptyPatience{60};  // without a model it ends: whoever started it is gone
constexpr size_t kMostFailures = 16;   // told; older ones are forgotten

}  // namespace

std::string endpoint_url(const std::string& host, uint16_t port) {
  const std::string shown = host == "0.0.0.0" || host == "::" ? "127.0.0.1" : host;
  return "http://" + (shown.find(':') == std::string::npos ? shown : "[" + shown + "]") + ":" + std::to_string(port);
}

Endpoint::Endpoint(EndpointOptions options)
    : options_(std::move(options)),
      service_({.loopback = is_loopback(options_.host), .api_keys = options_.keys}),
      http_(io_, service_,
            {.address = options_.host == "localhost" ? "127.0.0.1" : options_.host, .port = options_.port}),
      empty_since_(steady_clock::now()) {
  open_mailbox();
}

Endpoint::~Endpoint() { files_.join(); }

void Endpoint::open_mailbox() {
  rayo::ActorOptions place = {.name = endpoint_name(port()), .name_space = kServeNamespace};
  place.resources.cpus = 0;
  place.node = rayo::context().node;
  if (options_.detached) {
    place.get_if_exists = true;
    place.lifetime = rayo::Lifetime::kDetached;
  }
  mailbox_ = rayo::spawn<EndpointActor>(place);
}

Ending Endpoint::run() {
  if (options_.detached) {
    const EndpointTold before = mailbox_.call<&EndpointActor::read>().get();
    done_ = before.done;
    for (const ModelSpec& spec : before.models) add(spec, 0);
  }
  std::thread exchanger([this] { exchange_all(); });
  tick();
  io_.run();
  stopped_ = true;
  tell_soon();
  exchanger.join();
  close();
  return ending_;
}

// Every coroutine ends before what it uses does.
void Endpoint::close() {
  http_.close();
  timer_.cancel();
  io_.restart();
  io_.run_for(seconds(5));
  models_.clear();  // ends the engines
  if (!options_.detached) return;
  try {
    rayo::kill(mailbox_);
  } catch (const rayo::Error&) {  // it is gone already, or the cluster is
  }
}

void Endpoint::stop() {
  asio::post(io_, [this] { stop_here(); });
}

void Endpoint::stop_here() {
  if (stopping_) return io_.stop();
  stopping_ = true;
  stop_at_ = steady_clock::now() + kDrain;
  service_.close();
  http_.stop_accepting();
}

void Endpoint::take(const EndpointOrder& order) {
  if (order.number <= done_) return;  // told twice
  done_ = order.number;
  if (order.kind == EndpointOrder::Kind::kAdd) add(order.model, order.number);
  if (order.kind == EndpointOrder::Kind::kStop) stop_here();
  if (order.kind == EndpointOrder::Kind::kScale) scale(order);
  if (order.kind == EndpointOrder::Kind::kRemove) {
    Served* const served = find(order);
    const bool others = served != nullptr && order.added != 0 && served->order != 0 && served->order != order.added;
    if (served != nullptr && !others) {
      leave(*served);
      removing_ = true;
    }
  }
  tell_soon();
}

void Endpoint::add(const ModelSpec& spec, uint64_t order) {
  if (stopping_) return fail(order, {"the endpoint is being stopped", "the same again when it has ended"});
  const auto [at, fresh] = models_.try_emplace(spec.name);
  if (!fresh)
    return fail(order, {"a model named " + spec.name + " is served there already",
                        "--name with another name, or rayo serve scale N --name " + spec.name});
  at->second.spec = spec;
  at->second.order = order;
  service_.expect_model(spec.name, 0);
  asio::post(files_, [this, spec] {
    auto made = std::make_shared<Result<Prepared>>(prepare(spec));
    asio::post(io_, [this, name = spec.name, made] { prepared(name, std::move(*made)); });
  });
}

// Of a thread of its own: reads files and asks the cluster.
Result<Endpoint::Prepared> Endpoint::prepare(const ModelSpec& spec) {
  try {
    Prepared made;
    rayo::ActorOptions beside;
    beside.resources.cpus = 0;
    beside.node = spec.source;
    made.source = rayo::spawn<ModelSource>(beside, spec.paths);
    Result<std::string> path = fetch_model(spec.path, spec.bytes, made.source, [this, &spec](double there) {
      asio::post(io_, [this, name = spec.name, there] { fetched(name, there); });
      return !stopped_;
    });
    if (!path) return path.problem();
    made.path = *path;
    Result<ModelFile> file = check_model_file(made.path);
    if (!file) return file.problem();
    made.file = std::move(*file);
    auto language = load_language(made.path, spec.max_context);
    if (!language) return language.problem();
    made.language = *language;
    const Result<int32_t> automatic = automatic_replicas(made.file, needed_bytes(made.file, spec.max_context));
    if (!automatic) return automatic.problem();
    made.replicas = spec.replicas > 0 ? spec.replicas : std::max(*automatic, 1);
    return made;
  } catch (const rayo::Error& error) {
    return Problem{error.text(), error.next_step()};
  }
}

void Endpoint::fetched(const std::string& name, double part) {
  const auto found = models_.find(name);
  if (found == models_.end() || found->second.leaving) return;
  found->second.fetched = part;
  service_.expect_model(name, part);
}

void Endpoint::prepared(const std::string& name, Result<Prepared> prepared) {
  const auto found = models_.find(name);
  if (found == models_.end()) return;
  Served& served = found->second;
  if (!prepared || served.leaving) {
    if (!prepared) fail(served.order, prepared.problem());
    service_.retire_model(name);
    models_.erase(found);
    return;
  }
  const ModelSpec& spec = served.spec;
  const std::string engines = options_.detached ? "engine-" + std::to_string(port()) + "-" + name : "";
  served.deployment = std::make_unique<Deployment>(io_,
                                                   EngineOptions{.model_path = spec.path,
                                                                 .model_bytes = spec.bytes,
                                                                 .max_context = spec.max_context,
                                                                 .parallel = spec.parallel,
                                                                 .threads = spec.threads,
                                                                 .step_seconds = spec.step_seconds,
                                                                 .orphan_seconds = options_.detached ? 60 : 0},
                                                   prepared->file, engines);
  served.model = service_.add_model(name, prepared->language, *served.deployment);
  if (stopping_) served.model->dispatcher.close();
  served.deployment->attach(served.model->dispatcher, prepared->source);
  served.deployment->resume(spec.running);
  // It may have been scaled meanwhile.
  if (spec.running.empty()) served.deployment->scale(spec.replicas > 0 ? spec.replicas : prepared->replicas);
  tell_soon();
}

void Endpoint::scale(const EndpointOrder& order) {
  Served* served = find(order);
  if (served == nullptr) return;
  if (served->deployment == nullptr) {
    served->spec.replicas = order.replicas;
    return;
  }
  int32_t replicas = order.replicas;
  if (replicas == 0) {
    const Result<int32_t> more = automatic_replicas(served->deployment->file(), served->deployment->bytes());
    replicas = served->deployment->wanted() + (more ? *more : 0);
  }
  served->deployment->scale(replicas);
}

// Clients know it no more; tick() ends it when what runs has ended.
void Endpoint::leave(Served& served) {
  served.leaving = true;
  service_.retire_model(served.spec.name);
}

// The one that an order means. Where there is none, the order has failed.
Endpoint::Served* Endpoint::find(const EndpointOrder& order) {
  std::string names;
  Served* only = nullptr;
  size_t count = 0;
  for (auto& [name, served] : models_) {
    if (served.leaving) continue;
    if (name == order.name) return &served;
    names += (names.empty() ? "" : ", ") + name;
    only = &served;
    ++count;
  }
  if (order.name.empty() && count == 1) return only;
  const std::string there = names.empty() ? "no model is served there" : "served there: " + names;
  fail(order.number, order.name.empty()
                         ? Problem{"which model? " + there, "--name NAME"}
                         : Problem{"there is no model " + order.name + "; " + there, "rayo serve status"});
  return nullptr;
}

void Endpoint::fail(uint64_t order, Problem problem) {
  std::fprintf(stderr, "rayo serve: %s\n", problem.what.c_str());
  failures_.push_back({order, std::move(problem)});
  if (failures_.size() > kMostFailures) failures_.pop_front();
  tell_soon();
}

void Endpoint::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopped_) return;
    const auto now = steady_clock::now();
    service_.tick(now);
    for (auto at = models_.begin(); at != models_.end();) at = tick(at->first, at->second) ? models_.erase(at) : ++at;
    if (!models_.empty()) empty_since_ = now;
    if (models_.empty() && (removing_ || now - empty_since_ > kEmptyPatience) && !stopping_) stop_here();
    if (stopping_ && (service_.flights() == 0 || now > stop_at_)) return io_.stop();
    tick();
  });
}

// True: nothing is left of it.
bool Endpoint::tick(const std::string& name, Served& served) {
  if (served.deployment == nullptr) return false;
  served.deployment->tick();
  if (!served.ready && served.model->dispatcher.router().ready()) {
    served.ready = true;
    tell_soon();
  }
  if (!served.ready && !served.leaving && served.deployment->deaths() > kTries * served.deployment->wanted()) {
    fail(served.order, {"no replica starts: " + served.deployment->last_problem(), "rayo logs"});
    leave(served);
  }
  if (!served.leaving || served.model->dispatcher.flights() > 0) return false;
  served.deployment->scale(0);
  if (!served.deployment->idle()) return false;
  service_.remove_model(name);
  return true;
}

void Endpoint::tell_soon() {
  {
    const std::scoped_lock lock(soon_mutex_);
    news_ = true;
  }
  soon_.notify_one();
}

// Of a thread of its own: tells the mailbox how things are, and fetches what was asked.
void Endpoint::exchange_all() {
  auto heard = steady_clock::now();
  std::string silence;
  while (!stopped_) {
    const auto made = std::make_shared<std::promise<EndpointTold>>();
    asio::post(io_, [this, made] { made->set_value(describe()); });
    auto told = made->get_future();
    while (told.wait_for(kTick) != std::future_status::ready) {
      if (stopped_) return;
    }
    const std::string problem = exchange(told.get());
    if (problem.empty())
      heard = steady_clock::now();
    else
      silence = problem;
    if (steady_clock::now() - heard > kClusterPatience) {
      asio::post(io_, [this, silence] {
        ending_ = {.code = 3, .what = "the cluster of this endpoint is gone: " + silence, .next = "rayo status"};
        io_.stop();
      });
      return;
    }
    std::unique_lock lock(soon_mutex_);
    soon_.wait_for(lock, kReport, [this] { return news_; });
    news_ = false;
  }
}

// What is wrong, or nothing.
std::string Endpoint::exchange(const EndpointTold& told) {
  try {
    const auto orders = mailbox_.call<&EndpointActor::exchange>(told).try_get(kMailboxPatience);
    if (!orders) {
      if (orders.error().kind == rayo::ErrorKind::kActorDied) open_mailbox();
      return orders.error().text;
    }
    for (const EndpointOrder& order : *orders) asio::post(io_, [this, order] { take(order); });
    return {};
  } catch (const rayo::Error& error) {
    return error.text();
  }
}

EndpointTold Endpoint::describe() const {
  EndpointTold told{.done = done_};
  json::array failures;
  for (const Failure& failure : failures_)
    failures.push_back(
        json::object{{"order", failure.order}, {"text", failure.problem.what}, {"try", failure.problem.next}});
  told.report = gateway::to_json(json::object{{"schema", 2},
                                              {"url", endpoint_url(options_.host, port())},
                                              {"host", options_.host},
                                              {"detached", options_.detached},
                                              {"keys", !options_.keys.empty()},
                                              {"stopping", stopping_},
                                              {"requests", static_cast<int64_t>(service_.flights())},
                                              {"models", describe_models()},
                                              {"failures", std::move(failures)}});
  for (const auto& [name, served] : models_) {
    if (served.leaving) continue;
    told.models.push_back(served.spec);
    if (served.deployment) told.models.back().running = served.deployment->running();
  }
  return told;
}

json::array Endpoint::describe_models() const {
  json::array list;
  for (const auto& [name, served] : models_) {
    const bool there = served.deployment != nullptr;
    const char* state = served.leaving ? "leaving" : "loading";
    if (there && !served.leaving && served.model->dispatcher.router().ready()) state = "ready";
    list.push_back(
        json::object{{"name", name},
                     {"state", state},
                     {"ready", state == std::string_view("ready")},
                     {"fetched", served.fetched},
                     {"wanted_replicas", there ? served.deployment->wanted() : 0},
                     {"requests", there ? static_cast<int64_t>(served.model->dispatcher.flights()) : 0},
                     {"replays_total", there ? static_cast<int64_t>(served.model->dispatcher.router().moves()) : 0},
                     {"last_death", there ? served.deployment->last_problem() : ""},
                     {"replicas", there ? served.deployment->describe() : json::array()}});
  }
  return list;
}

}  // namespace serving
