// `rayo serve` beside llama-server of the same sources: the same model, threads and requests, in turn in one run. Both are child
// processes that are asked over HTTP; while one is measured the other one waits.
//
// llama-server is built by ./dev bench (bench/peers/llama_server.sh) and runs with its own defaults, but for the number of
// requests at once.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <random>

#include "bench/harness.h"
#include "bench/llm_targets.h"
#include "bench/local_cluster.h"
#include "examples/llm_serving/engine/engine.h"
#include "examples/llm_serving/engine/model_file.h"

namespace rayo::bench {
namespace {

constexpr int kThreads = 2;
constexpr int kParallel = 8;
constexpr int kChunk = 256;  // tokens of a prompt in one step: EngineOptions::chunk_tokens

using Target = std::function<Arrivals(const Ask&)>;

// Common words of the model's vocabulary; no two prompts share a prefix.
std::vector<int> some_tokens(int count) {
  static std::atomic<unsigned> seed = 1;
  std::minstd_rand random(seed++);
  std::vector<int> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<int>(1000 + random() % 20000));
  return tokens;
}

// As many clients at once, each with `asks` questions one after another.
std::vector<Arrivals> crowd(const Target& target, int clients, int asks, int prompt, int answer) {
  std::vector<Arrivals> all(static_cast<size_t>(clients * asks));
  std::vector<std::thread> threads;
  std::atomic<bool> failed = false;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      try {
        for (int i = 0; i < asks; ++i)
          all[static_cast<size_t>(client * asks + i)] = target({some_tokens(prompt), answer});
      } catch (const std::exception& error) {
        std::fprintf(stderr, "a client failed: %s\n", error.what());
        failed = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failed) throw std::runtime_error("a client failed");
  return all;
}

double decode_rate(const Target& target) {
  constexpr int kAnswer = 96;
  const Arrivals arrivals = target({some_tokens(32), kAnswer});
  return (kAnswer - 1) / (arrivals.back() - arrivals.front());
}

// Tokens of output per second, from the first question to the last answer.
double total_rate(const Target& target, int clients) {
  constexpr int kAnswer = 64;
  const auto begin = std::chrono::steady_clock::now();
  (void)crowd(target, clients, 1, 32, kAnswer);
  return clients * kAnswer / seconds_since(begin);
}

double first_token_ms(const Target& target, int clients) {
  std::vector<double> firsts;
  for (const Arrivals& arrivals : crowd(target, clients, 3, 128, 16)) firsts.push_back(arrivals.front() * 1e3);
  return percentile(firsts, 0.5);
}

// The longest pause of three that decode while a prompt of 2,000 tokens comes, in chunks of that prompt.
double longest_gap(const Target& target) {
  constexpr int kPrompt = 2000;
  std::vector<Arrivals> talkers(3);
  std::vector<std::thread> threads;
  const auto begin = std::chrono::steady_clock::now();
  for (Arrivals& arrivals : talkers)
    threads.emplace_back([&arrivals, &target] { arrivals = target({some_tokens(8), 60}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // they decode; the load's shape, not a wait
  const double from = seconds_since(begin);
  const double prompt_s = target({some_tokens(kPrompt), 1}).front();
  for (std::thread& thread : threads) thread.join();
  double longest = 0;
  for (const Arrivals& arrivals : talkers) {
    for (size_t i = 1; i < arrivals.size(); ++i) {
      if (arrivals[i] > from && arrivals[i - 1] < from + prompt_s)
        longest = std::max(longest, arrivals[i] - arrivals[i - 1]);
    }
  }
  std::fprintf(stderr, "longest gap %.3f s, prompt %.3f s\n", longest, prompt_s);
  return longest / (prompt_s * kChunk / kPrompt);
}

// The second prompt's time to the first token against the first one's, where both begin with the same 1,000 tokens.
double shared_prefix(const Target& target) {
  const std::vector<int> system = some_tokens(1000);
  double seconds[2];
  for (double& one : seconds) {
    Ask ask{system, 1};
    for (int token : some_tokens(8)) ask.prompt.push_back(token);
    one = target(ask).front();
  }
  return seconds[1] / seconds[0];
}

struct GatewayTime {
  double seconds = 0;
  double requests = 0;
};

// What the gateway says of itself (rayo:gateway_time_seconds): from a request's last byte to its hand-over to an engine, and from
// a token to its bytes on the socket.
GatewayTime gateway_time(const Server& server) {
  const std::string page = Connection(server.port()).page("/metrics");
  const auto value = [&page](const std::string& name) {
    const size_t line = page.find("\nrayo:gateway_time_seconds_" + name + "{");
    if (line == std::string::npos) throw std::runtime_error("/metrics has no rayo:gateway_time_seconds");
    return std::stod(page.substr(page.find("} ", line) + 2));
  };
  return {.seconds = value("sum"), .requests = value("count")};
}

// The mean of requests one after another.
double gateway_ms(const Server& server, const Target& target) {
  constexpr int kRequests = 60;
  const GatewayTime before = gateway_time(server);
  for (int i = 0; i < kRequests; ++i) (void)target({some_tokens(16), 1});
  const GatewayTime after = gateway_time(server);
  if (after.requests - before.requests != kRequests) throw std::runtime_error("the gateway did not count each request");
  return (after.seconds - before.seconds) / kRequests * 1e3;
}

// A prompt that is in the cache, and one token of answer: what is neither the model's work nor the engine's, as far as two engines
// are alike.
double overhead_ms(const Target& over_http, const Target& in_process) {
  const std::vector<int> prompt = some_tokens(16);
  std::vector<double> both[2];
  for (int i = 0; i < 60; ++i) {
    both[0].push_back(over_http({prompt, 1}).back());
    both[1].push_back(in_process({prompt, 1}).back());
  }
  return (percentile(both[0], 0.5) - percentile(both[1], 0.5)) * 1e3;
}

double resident_mib(pid_t pid) {
  long ignored = 0, pages = 0;
  std::ifstream("/proc/" + std::to_string(pid) + "/statm") >> ignored >> pages;
  return static_cast<double>(pages) * 4096 / (1 << 20);
}

// What the gateway's memory grows by for 1,000 streams that wait for their first token: as many as the engine's queue
// takes are opened, and leave again.
double idle_mib(const Server& server) {
  constexpr int kStreams = 240;
  const double before = resident_mib(server.pid());
  std::vector<std::unique_ptr<Connection>> streams;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<Connection>(server.port()));
    streams.back()->send({some_tokens(32), 400});
  }
  if (Connection(server.port()).get("/health") != 200) throw std::runtime_error("the gateway does not answer");
  std::this_thread::sleep_for(std::chrono::seconds(1));  // until all have been read: nothing tells when
  return (resident_mib(server.pid()) - before) * 1000 / kStreams;
}

// The engine alone, without HTTP.
class InProcess {
 public:
  explicit InProcess(const std::string& model) {
    serving::EngineOptions options;
    options.model_path = model;
    options.threads = kThreads;
    options.parallel = kParallel;
    options.kv_tokens = 1024;
    auto engine = serving::Engine::load(
        options, serving::available_memory_bytes(), [this](uint64_t, serving::Step step) { take(step); }, nullptr);
    if (!engine) throw std::runtime_error(engine.problem().what);
    engine_ = std::move(*engine);
  }
  Arrivals ask(const Ask& ask) {
    serving::Request request;
    request.id = ++last_;
    request.client = "bench";
    request.prompt.assign(ask.prompt.begin(), ask.prompt.end());
    request.max_tokens = ask.answer;
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    Live live;
    live.begin = std::chrono::steady_clock::now();
    {
      const std::lock_guard lock(mutex_);
      lives_[request.id] = &live;
    }
    const uint64_t id = request.id;
    const auto admission = engine_->submit(1, std::move(request));
    if (admission.verdict != serving::Admission::Verdict::kTaken) throw std::runtime_error(admission.reason);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return live.ended; });
    lives_.erase(id);
    return live.arrivals;
  }

 private:
  struct Live {
    std::chrono::steady_clock::time_point begin;
    Arrivals arrivals;
    bool ended = false;
  };
  void take(const serving::Step& step) {
    const std::lock_guard lock(mutex_);
    for (const serving::Event& event : step.events) {
      Live& live = *lives_.at(event.request);
      live.arrivals.push_back(seconds_since(live.begin));
      live.ended |= event.finish != serving::Finish::kNone;
    }
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Live*> lives_;
  std::atomic<uint64_t> last_ = 0;
  std::unique_ptr<serving::Engine> engine_;
};

struct Servers {
  Server llama;
  LocalCluster cluster;
  Server rayo;

  explicit Servers(const std::string& bin)
      : llama({llama_server(), "-m", RAYO_LLM_MODEL, "--threads", number(kThreads), "-np", number(kParallel), "--port"},
              "/health", "/dev/null"),
        rayo({bin + "/rayo", "serve", RAYO_LLM_MODEL, "--name", "bench", "--threads", number(kThreads), "--parallel",
              number(kParallel), "--port"},
             "/ready", "/dev/null") {}

 private:
  static std::string llama_server() {
    const char* path = std::getenv("RAYO_BENCH_LLAMA_SERVER");
    if (path == nullptr || *path == '\0')
      throw std::runtime_error("no llama-server: RAYO_BENCH_LLAMA_SERVER=$(bench/peers/llama_server.sh)");
    return path;
  }
};

int run(int argc, char** argv) {
  Servers servers(std::filesystem::read_symlink("/proc/self/exe").parent_path());
  const Target theirs = [&](const Ask& ask) { return Connection(servers.llama.port()).complete(ask); };
  const Target ours = [&](const Ask& ask) { return Connection(servers.rayo.port()).complete(ask); };
  (void)theirs({some_tokens(16), 8});
  (void)ours({some_tokens(16), 8});
  Report report(3);
  Sections sections(argc, argv);
  const auto both = [&](const char* name, const char* unit, Better better, double budget, auto measure) {
    report.ratio(
        {name, unit, better, "llama-server", budget}, [&] { return measure(theirs); }, [&] { return measure(ours); });
  };
  sections.run("ready", [&] { report.single({"llm.ready", "s", Better::kLower, "", 2}, servers.rayo.ready_s(), 0); });
  // First: later the server's cache is fuller than that of the engine alone.
  sections.run("gateway_overhead", [&] {
    InProcess engine(RAYO_LLM_MODEL);
    const Target alone = [&](const Ask& ask) { return engine.ask(ask); };
    std::fprintf(stderr, "over HTTP less an engine alone: llama-server %.2f ms, rayo serve %.2f ms\n",
                 overhead_ms(theirs, alone), overhead_ms(ours, alone));
    report.absolute({"llm.gateway_overhead", "ms", Better::kLower, "", 1},
                    [&] { return gateway_ms(servers.rayo, ours); });
  });
  sections.run("decode", [&] { both("llm.decode_one", "tok/s", Better::kHigher, 0.97, decode_rate); });
  for (int clients : {4, 8}) {
    const std::string name = "llm.total_" + std::to_string(clients) + "_clients";
    sections.run(name, [&] {
      both(name.c_str(), "tok/s", Better::kHigher, 1.0,
           [&](const Target& target) { return total_rate(target, clients); });
    });
  }
  sections.run("first_token", [&] {
    both("llm.first_token_4_clients", "ms", Better::kLower, 1.0,
         [](const Target& target) { return first_token_ms(target, 4); });
  });
  sections.run("longest_gap", [&] {
    std::fprintf(stderr, "of llama-server: %.2f\n", longest_gap(theirs));
    report.absolute({"llm.longest_gap", "chunks", Better::kLower, "", 2}, [&] { return longest_gap(ours); });
  });
  sections.run("shared_prefix", [&] {
    std::fprintf(stderr, "of llama-server: %.3f\n", shared_prefix(theirs));
    report.absolute({"llm.shared_prefix", "x", Better::kLower, "", 0.15}, [&] { return shared_prefix(ours); });
  });
  sections.run("idle_streams", [&] {
    report.single({"llm.idle_streams_1000", "MiB", Better::kLower, "", 50}, idle_mib(servers.rayo), 0);
  });
  report.print();
  return sections.failed() ? 1 : 0;
}

}  // namespace
}  // namespace rayo::bench

int main(int argc, char** argv) {
  try {
    return rayo::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llm_bench: %s\n", error.what());
    return 1;
  }
}
