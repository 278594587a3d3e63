#include "examples/llm_serving/gateway/service.h"

#include <charconv>
#include <ctime>

#include "examples/llm_serving/gateway/json_text.h"

namespace serving::gateway {
namespace {

namespace http = boost::beast::http;
namespace json = boost::json;

constexpr std::string_view kJson = "application/json";

std::string_view header(const HttpRequest& request, http::field name) {
  const auto found = request.find(name);
  return found == request.end() ? std::string_view() : std::string_view(found->value().data(), found->value().size());
}

Credentials credentials_of(const HttpRequest& request) {
  const auto key = request.find("x-api-key");
  return {.host = header(request, http::field::host),
          .origin = header(request, http::field::origin),
          .authorization = header(request, http::field::authorization),
          .api_key =
              key == request.end() ? std::string_view() : std::string_view(key->value().data(), key->value().size())};
}

void answer(Exchange& exchange, const ApiError& error) {
  if (error.retry_after_s) exchange.add_header("Retry-After", std::to_string(*error.retry_after_s));
  if (error.status == 401) exchange.add_header("WWW-Authenticate", "Bearer");
  exchange.respond(error.status, kJson, error.body());
}

// Clients write a model's name as one segment of a path: org%2Fmodel.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

struct Service::Route {
  http::verb method;
  std::string_view path;
  void (Service::*handler)(Exchange&);
};

const std::vector<Service::Route> Service::kRoutes = {
    {http::verb::get, "/health", &Service::health},
    {http::verb::get, "/ready", &Service::readiness},
    {http::verb::get, "/metrics", &Service::metrics},
    {http::verb::get, "/v1/models", &Service::list_models},
    {http::verb::post, "/v1/chat/completions", &Service::chat},
    {http::verb::post, "/v1/completions", &Service::completion},
    {http::verb::post, "/v1/embeddings", &Service::embeddings},
    {http::verb::post, "/tokenize", &Service::tokenize},
    {http::verb::post, "/detokenize", &Service::detokenize},
};

std::shared_ptr<Model> Service::add_model(const std::string& name, std::shared_ptr<const Language> language,
                                          EngineLink& link) {
  expected_.erase(name);
  auto& place = models_[name];
  place = std::make_shared<Model>(name, std::move(language), link, static_cast<int64_t>(std::time(nullptr)));
  return place;
}

void Service::retire_model(const std::string& name) {
  expected_.erase(name);
  auto node = models_.extract(name);
  if (node.empty()) return;
  node.mapped()->dispatcher.close();
  retired_.insert(std::move(node));
}

void Service::handle(Exchange& exchange) {
  try {
    if (admit(exchange, credentials_of(exchange.request()))) route(exchange);
  } catch (const ApiError& error) {
    if (!exchange.answered()) answer(exchange, error);
  }
}

void Service::tick(Instant now) {
  for (const auto* models : {&models_, &retired_}) {
    for (const auto& [name, model] : *models) model->dispatcher.tick(now);
  }
}

void Service::close() {
  for (const auto& [name, model] : models_) model->dispatcher.close();
}

size_t Service::flights() const {
  size_t count = 0;
  for (const auto* models : {&models_, &retired_}) {
    for (const auto& [name, model] : *models) count += model->dispatcher.flights();
  }
  return count;
}

bool Service::ready() const {
  bool some = false;
  for (const auto& [name, model] : models_) {
    const Router& router = model->dispatcher.router();
    if (router.was_ready() && !router.ready()) return false;
    some = some || router.ready();
  }
  return some;
}

// False where the answer is given already.
bool Service::admit(Exchange& exchange, const Credentials& credentials) {
  const HttpRequest& request = exchange.request();
  if (const std::string origin = access_.allowed_origin(credentials); !origin.empty()) {
    exchange.add_header("Access-Control-Allow-Origin", origin);
    exchange.add_header("Access-Control-Expose-Headers", "x-request-id, retry-after");
    if (origin != "*") exchange.add_header("Vary", "Origin");
  }
  if (auto error = access_.refuse_place(credentials)) throw *std::move(error);
  if (request.version() >= 11 && credentials.host.empty()) throw bad_request("A Host header is missing.");
  if (request.method() == http::verb::options) {
    exchange.add_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    const std::string_view wanted = header(request, http::field::access_control_request_headers);
    exchange.add_header("Access-Control-Allow-Headers", wanted.empty() ? "*" : std::string(wanted));
    exchange.add_header("Access-Control-Max-Age", "600");
    exchange.respond(204, "", "");
    return false;
  }
  const bool open = exchange.target() == "/health" || exchange.target() == "/ready";
  if (auto error = access_.refuse_key(credentials); error && !open) throw *std::move(error);
  // Where nobody checks them, anybody could make up a key for each request, and would have every turn.
  if (access_.has_keys()) exchange.set_client(std::string(key_of(credentials)));
  return true;
}

void Service::route(Exchange& exchange) {
  const http::verb method =
      exchange.request().method() == http::verb::head ? http::verb::get : exchange.request().method();
  const std::string_view path = exchange.target();
  const Route* other_method = nullptr;
  for (const Route& route : kRoutes) {
    if (route.path != path) continue;
    if (route.method == method) return (this->*route.handler)(exchange);
    other_method = &route;
  }
  constexpr std::string_view kOneModel = "/v1/models/";
  if (method == http::verb::get && path.starts_with(kOneModel))
    return one_model(exchange, percent_decoded(path.substr(kOneModel.size())));
  const std::string asked = std::string(exchange.request().method_string()) + " " + std::string(path.substr(0, 200));
  ApiError error = bad_request("Unknown request URL: " + asked + ".", "", "unknown_url");
  error.status = 404;
  if (other_method != nullptr) {
    error = bad_request("Not allowed to " + asked + ".", "", "method_not_allowed");
    error.status = 405;
    exchange.add_header("Allow", other_method->method == http::verb::get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS");
  }
  throw error;
}

void Service::health(Exchange& exchange) { exchange.respond(200, kJson, R"({"status":"ok"})"); }

void Service::readiness(Exchange& exchange) {
  json::object models;
  for (const auto& [name, model] : models_) {
    json::array replicas;
    for (const ReplicaView& replica : model->dispatcher.router().replicas())
      replicas.push_back(json::object{
          {"id", replica.id}, {"state", name_of(replica.state)}, {"progress", replica.status.load_progress}});
    models[name] = std::move(replicas);
  }
  for (const auto& [name, fetched] : expected_)
    models[name] = json::array{json::object{{"id", 0}, {"state", "fetching"}, {"progress", fetched}}};
  const json::object body = {{"status", ready() ? "ready" : "loading"}, {"models", std::move(models)}};
  if (!ready()) exchange.add_header("Retry-After", "1");
  exchange.respond(ready() ? 200 : 503, kJson, to_json(body));
}

json::object Service::describe(const Model& model) const {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "rayo"},
          {"max_model_len", model.language->context_tokens()},
          {"meta", json::object{{"vocab_size", model.language->vocabulary()}}}};
}

void Service::list_models(Exchange& exchange) {
  json::array data;
  for (const auto& [name, model] : models_) data.push_back(describe(*model));
  exchange.respond(200, kJson, to_json(json::object{{"object", "list"}, {"data", std::move(data)}}));
}

void Service::one_model(Exchange& exchange, const std::string& name) {
  exchange.respond(200, kJson, to_json(describe(*model(name))));
}

void Service::metrics(Exchange& exchange) {
  MetricsText out;
  for (const auto& [name, model] : models_) model->dispatcher.metrics().append(out, model->dispatcher.router());
  exchange.respond(200, "text/plain; version=0.0.4; charset=utf-8", out.text());
}

std::shared_ptr<Model> Service::model(const std::string& name) {
  if (const auto found = models_.find(name); found != models_.end()) return found->second;
  if (const auto coming = expected_.find(name); coming != expected_.end()) throw model_loading(coming->second);
  throw model_not_found(name.substr(0, 200));
}

std::shared_ptr<Model> Service::model_or_only(const std::string& name) {
  if (name.empty() && models_.size() == 1) return models_.begin()->second;
  if (name.empty() && models_.empty() && expected_.size() == 1) throw model_loading(expected_.begin()->second);
  if (name.empty()) throw bad_request("Missing required parameter: 'model'.", "model", "missing_required_parameter");
  return model(name);
}

}  // namespace serving::gateway
