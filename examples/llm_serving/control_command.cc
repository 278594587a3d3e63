// `rayo serve status|stop|scale`.
#include <thread>

#include "examples/llm_serving/endpoint_client.h"
#include "examples/llm_serving/printed.h"
#include "examples/llm_serving/serve_command.h"

namespace serving {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{50};
constexpr std::chrono::seconds kOrderPatience{15};
constexpr std::chrono::seconds kEndPatience{60};  // requests have 30 s, engines some more

void print_model(const json::object& model) {
  print("%s: %s, %lld requests, %lld replayed\n", model.at("name").as_string().c_str(),
        model.at("state").as_string().c_str(), static_cast<long long>(model.at("requests").to_number<int64_t>()),
        static_cast<long long>(model.at("replays_total").to_number<int64_t>()));
  print("  %-8s %-10s %-33s %9s %8s %8s %7s  %s\n", "replica", "state", "node", "tokens/s", "running", "waiting",
        "cache", "device");
  for (const json::value& replica : model.at("replicas").as_array()) {
    const auto cells = replica.at("kv_tokens").to_number<double>();
    const double used = cells > 0 ? replica.at("kv_used_tokens").to_number<double>() / cells : 0;
    print("  %-8d %-10s %-33s %9.1f %8d %8d %6.0f%%  %s\n", replica.at("id").to_number<int>(),
          replica.at("state").as_string().c_str(), replica.at("node").as_string().c_str(),
          replica.at("tokens_per_second").to_number<double>(), replica.at("running").to_number<int>(),
          replica.at("waiting").to_number<int>(), used * 100, replica.at("device").as_string().c_str());
  }
  const json::string& death = model.at("last_death").as_string();
  if (!death.empty()) print("  the last engine that died: %s\n", death.c_str());
}

Ending unknown(const std::string& name) {
  return failed("there is no model " + name + " at this endpoint", "rayo serve status");
}

Ending show_status(const ServeOptions& options, EndpointClient& endpoint) {
  const Result<json::value> report = endpoint.report();
  if (!report) return failed(report.problem().what, report.problem().next);
  if (report->is_null()) return failed("the endpoint is being started", "the same again");
  if (!options.name.empty() && model_of(*report, options.name) == nullptr) return unknown(options.name);
  if (options.json) {
    print("%s\n", json::serialize(*report).c_str());
    return {};
  }
  print("%s/v1%s%s\n", report->at("url").as_string().c_str(),
        report->at("detached").as_bool() ? ", in the cluster" : "",
        report->at("stopping").as_bool() ? ", stopping" : "");
  for (const json::value& model : report->at("models").as_array()) {
    if (options.name.empty() || model.at("name").as_string() == options.name) print_model(model.as_object());
  }
  return {};
}

// Until the endpoint has carried it out.
Ending await(EndpointClient& endpoint, uint64_t order) {
  const auto until = steady_clock::now() + kOrderPatience;
  while (steady_clock::now() < until) {
    const Result<json::value> report = endpoint.report();
    if (!report) return failed(report.problem().what, report.problem().next);
    if (endpoint.done(order)) {
      const std::optional<Problem> failure = failure_of(*report, order);
      return failure ? failed(failure->what, failure->next) : Ending{};
    }
    std::this_thread::sleep_for(kLook);
  }
  return {.code = 5, .what = "the endpoint has not answered for 15 s", .next = "rayo serve status"};
}

Ending await_end(const EndpointClient& endpoint) {
  const auto until = steady_clock::now() + kEndPatience;
  while (steady_clock::now() < until) {
    if (endpoint.gone()) return {};
    std::this_thread::sleep_for(kLook);
  }
  return {.code = 5, .what = "the endpoint has not ended within 60 s", .next = "rayo serve status"};
}

}  // namespace

Ending control(const ServeOptions& options) {
  using Verb = ServeOptions::Verb;
  std::optional<EndpointClient> endpoint = EndpointClient::find(options.port);
  if (!endpoint)
    return failed("nothing serves at port " + std::to_string(options.port) + " of this cluster",
                  "rayo serve MODEL, or --port N of the one that is meant");
  if (options.verb == Verb::kStatus) return show_status(options, *endpoint);
  const bool all = options.verb == Verb::kStop && options.name.empty();
  EndpointOrder order = {
      .kind = EndpointOrder::Kind::kScale, .name = options.name, .replicas = options.replicas.value_or(0)};
  if (options.verb == Verb::kStop) order.kind = all ? EndpointOrder::Kind::kStop : EndpointOrder::Kind::kRemove;
  const uint64_t number = endpoint->ask(order);
  return all ? await_end(*endpoint) : await(*endpoint, number);
}

}  // namespace serving
