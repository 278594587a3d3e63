#include "examples/llm_serving/serve_command.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

#include "examples/llm_serving/endpoint_client.h"
#include "examples/llm_serving/gateway_actor.h"
#include "examples/llm_serving/model_path.h"
#include "examples/llm_serving/printed.h"
#include "examples/llm_serving/program_output.h"

namespace serving {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using std::chrono::milliseconds;

constexpr milliseconds kLook{50};

// An endpoint in this process.
class LocalEndpoint {
 public:
  explicit LocalEndpoint(EndpointOptions options)
      : endpoint_(std::move(options)), thread_([this] {
          ending_ = endpoint_.run();
          ended_ = true;
        }) {}
  ~LocalEndpoint() {
    for (int i = 0; i < 2; ++i) endpoint_.stop();
    thread_.join();
  }
  uint16_t port() const { return endpoint_.port(); }
  const Mailbox& mailbox() const { return endpoint_.mailbox(); }
  void stop() { endpoint_.stop(); }
  void look_soon() { endpoint_.look_soon(); }
  bool ended() const { return ended_; }
  const Ending& ending() const { return ending_; }  // after its end

 private:
  Endpoint endpoint_;
  Ending ending_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

// One `rayo serve MODEL` from its order on.
class Serving {
 public:
  Serving(const ServeOptions& options, const ModelSpec& spec, EndpointClient endpoint, LocalEndpoint* local,
          bool joined)
      : options_(options), spec_(spec), endpoint_(std::move(endpoint)), local_(local), joined_(joined) {}

  Ending run() {
    hear_signals();
    order_ = endpoint_.ask({.kind = EndpointOrder::Kind::kAdd, .model = spec_});
    if (local_ != nullptr) local_->look_soon();
    while (!done_) {
      io_.run_for(kLook);
      if (local_ != nullptr && local_->ended())
        done_ = local_->ending();
      else if (!announced_ || joined_)
        look();
    }
    return *done_;
  }

 private:
  void hear_signals() {
    signals_.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      interrupt();
      hear_signals();
    });
  }

  // What was begun is ended; the second time at once.
  void interrupt() {
    if (local_ != nullptr) return local_->stop();
    if (interrupted_) done_ = Ending{};
    interrupted_ = true;
    give_up();
  }

  // Takes back what this command brought about.
  void give_up() {
    if (local_ != nullptr) return;  // it ends with this process
    EndpointOrder order = {.kind = EndpointOrder::Kind::kStop};
    if (joined_) order = {.kind = EndpointOrder::Kind::kRemove, .added = order_, .name = spec_.name};
    endpoint_.ask(order);
  }

  void look() {
    const Result<json::value> report = endpoint_.report();
    if (!report) {
      done_ = interrupted_ ? Ending{} : Ending{3, "the endpoint is gone: " + report.problem().what, "rayo status"};
      return;
    }
    if (report->is_null()) return;  // it has told nothing yet
    if (const std::optional<Problem> failure = failure_of(*report, order_)) {
      if (!joined_) give_up();
      done_ = failed("cannot serve " + spec_.name + ": " + failure->what, failure->next);
      return;
    }
    if (!endpoint_.done(order_)) return;  // a model of this name that is told of may be another command's
    const json::object* model = model_of(*report, spec_.name);
    if (model == nullptr) {
      if (announced_ || interrupted_) done_ = Ending{};  // it was taken off
    } else if (!announced_ && model->at("ready").as_bool()) {
      announce(*report);
    } else if (!announced_) {
      show_progress(*model);
    }
  }

  void show_progress(const json::object& model) {
    if (isatty(STDERR_FILENO) == 0) return;
    double progress = model.at("replicas").as_array().empty() ? model.at("fetched").to_number<double>() : 0;
    for (const json::value& replica : model.at("replicas").as_array())
      progress = std::max(progress, replica.at("load_progress").to_number<double>());
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(progress * kWidth);
    std::fprintf(stderr, "\rloading %s [%s%s] %3d %%", spec_.name.c_str(), std::string(filled, '#').c_str(),
                 std::string(kWidth - filled, ' ').c_str(), static_cast<int>(progress * 100));
  }

  void announce(const json::value& report) {
    announced_ = true;
    if (isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
    const std::string url(report.at("url").as_string());
    print("%s answers at %s/v1\n", spec_.name.c_str(), url.c_str());
    print(
        "try: curl %s/v1/chat/completions -H 'Content-Type: application/json'%s -d '{\"model\": \"%s\", "
        "\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n",
        url.c_str(), report.at("keys").as_bool() ? " -H 'Authorization: Bearer KEY'" : "", spec_.name.c_str());
    const std::string port = url.substr(url.rfind(':') + 1);
    if (!joined_ && is_loopback(options_.host))
      print("to open it to your network: --host 0.0.0.0 with --api-key-file FILE (or --no-auth)\n");
    if (joined_)
      print("to take it off: %srayo serve stop --name %s --port %s\n", options_.detach ? "" : "Ctrl-C, or ",
            spec_.name.c_str(), port.c_str());
    else if (options_.detach)
      print("it goes on in the cluster: rayo serve stop --port %s ends it\n", port.c_str());
    if (options_.detach) done_ = Ending{};
  }

  const ServeOptions& options_;
  const ModelSpec& spec_;
  EndpointClient endpoint_;
  LocalEndpoint* const local_;
  const bool joined_;  // the endpoint was there before
  asio::io_context io_;
  asio::signal_set signals_{io_, SIGINT, SIGTERM};
  uint64_t order_ = 0;
  bool announced_ = false;
  bool interrupted_ = false;
  std::optional<Ending> done_;
};

Result<ModelSpec> look_at(const ServeOptions& options) {
  const Result<std::string> path = find_model(options.model);
  if (!path) return Problem{"cannot serve " + options.model + ": " + path.problem().what, path.problem().next};
  const Result<ModelFile> file = check_model_file(*path);
  if (!file) return Problem{"cannot serve " + *path + ": " + file.problem().what, file.problem().next};
  ModelSpec spec = {.name = options.name.empty() ? model_name_of(*path) : options.name,
                    .path = *path,
                    .paths = file->paths,
                    .bytes = file->size_bytes,
                    .source = rayo::context().node,
                    .replicas = options.replicas.value_or(0),
                    .max_context = options.max_context,
                    .parallel = options.parallel,
                    .threads = options.threads,
                    .step_seconds = options.step_timeout};
  const Result<int32_t> automatic = automatic_replicas(*file, needed_bytes(*file, options.max_context));
  if (!automatic)
    return Problem{"cannot serve " + spec.name + ": " + automatic.problem().what, automatic.problem().next};
  return spec;
}

Result<std::vector<std::string>> read_keys(const ServeOptions& options) {
  if (options.api_key_file.empty()) return std::vector<std::string>();
  std::ifstream file(options.api_key_file);
  if (!file) return Problem{"cannot read " + options.api_key_file + ": no such file", "a file with one key a line"};
  std::vector<std::string> keys = gateway::parse_keys(std::string(std::istreambuf_iterator<char>(file), {}));
  if (keys.empty()) return Problem{options.api_key_file + " has no key", "one key a line"};
  return keys;
}

Ending join(const ServeOptions& options, const ModelSpec& spec, EndpointClient endpoint) {
  if (options.host != ServeOptions().host || !options.api_key_file.empty() || options.no_auth)
    return failed("cannot add " + spec.name + ": the endpoint at port " + std::to_string(options.port) +
                      " of this cluster has its address and keys already",
                  "the same without --host, --api-key-file and --no-auth, or another --port");
  return Serving(options, spec, std::move(endpoint), nullptr, true).run();
}

}  // namespace

Ending serve(const ServeOptions& options) {
  const Result<ModelSpec> spec = look_at(options);
  if (!spec) return failed(spec.problem().what, spec.problem().next);
  if (std::optional<EndpointClient> there = EndpointClient::find(options.port))
    return join(options, *spec, std::move(*there));
  const Result<std::vector<std::string>> keys = read_keys(options);
  if (!keys) return failed(keys.problem().what, keys.problem().next);
  const EndpointOptions endpoint = {.host = options.host, .port = options.port, .keys = *keys};
  try {
    if (options.detach) {
      auto [port, mailbox] = start_gateway(endpoint);
      return Serving(options, *spec, EndpointClient(port, mailbox), nullptr, false).run();
    }
    LocalEndpoint local(endpoint);
    return Serving(options, *spec, EndpointClient(local.port(), local.mailbox()), &local, false).run();
  } catch (const boost::system::system_error& error) {
    const bool elsewhere = error.code() == boost::system::errc::address_not_available;
    return failed(
        "cannot listen on " + options.host + ":" + std::to_string(options.port) + ": " + error.code().message(),
        elsewhere ? "--host with an address of this machine, or 0.0.0.0" : "--port N, or --port 0 for any free one");
  }
}

bool cluster_runs() {
  const char* address = std::getenv("RAYO_ADDRESS");
  if (address != nullptr && *address != '\0') return true;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const ProgramOutput told = output_of({(self.parent_path() / "rayo").string(), "status", "--json"});
  return told.code != 3 || !told.text.empty();
}

}  // namespace serving
