#include "examples/llm_serving/endpoint_client.h"

namespace serving {
namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::seconds kGone{10};  // a mailbox that died is made anew by its endpoint

}  // namespace

std::optional<EndpointClient> EndpointClient::find(uint16_t port) {
  if (port == 0) return std::nullopt;
  try {
    return EndpointClient(port, rayo::actor<EndpointActor>(endpoint_name(port), kServeNamespace));
  } catch (const rayo::Invalid&) {
    return std::nullopt;
  }
}

uint64_t EndpointClient::ask(const EndpointOrder& order) {
  return mailbox_.call<&EndpointActor::ask>(order).get(kPatience);
}

Result<boost::json::value> EndpointClient::report() {
  const auto told = mailbox_.call<&EndpointActor::read>().try_get(kPatience);
  if (told) {
    heard_ = std::chrono::steady_clock::now();
    done_ = told->done;
    return told->report.empty() ? boost::json::value() : boost::json::parse(told->report);
  }
  if (std::chrono::steady_clock::now() - heard_ > kGone) return Problem{told.error().text, "rayo status"};
  if (std::optional<EndpointClient> again = find(port_)) mailbox_ = again->mailbox_;
  return boost::json::value();
}

bool EndpointClient::gone() const {
  const auto told = mailbox_.call<&EndpointActor::read>().try_get(kPatience);
  return !told && told.error().kind == rayo::ErrorKind::kActorDied;
}

std::optional<Problem> failure_of(const boost::json::value& report, uint64_t order) {
  for (const boost::json::value& failure : report.at("failures").as_array()) {
    if (failure.at("order").to_number<uint64_t>() != order) continue;
    return Problem{std::string(failure.at("text").as_string()), std::string(failure.at("try").as_string())};
  }
  return std::nullopt;
}

const boost::json::object* model_of(const boost::json::value& report, const std::string& name) {
  for (const boost::json::value& model : report.at("models").as_array()) {
    if (model.at("name").as_string() == name) return &model.as_object();
  }
  return nullptr;
}

}  // namespace serving
