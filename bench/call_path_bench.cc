// The call path below the API: what two engines do with a call, against the barest exchange over the same medium.
//
//   call_path_bench [SECTION...]     one_at_a_time idle_peers in_flight two_nodes two_machines four_pairs busy_owner
#include "bench/engine_echo.h"
#include "bench/harness.h"
#include "bench/references.h"
#include "bench/tls_reference.h"

namespace rayo::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kSpan = 150ms;  // of one measurement of a rate
constexpr int kCalls = 20'000;

void rest(std::chrono::microseconds span) { std::this_thread::sleep_for(span); }

void spin_for(std::chrono::microseconds span) {
  const auto end = std::chrono::steady_clock::now() + span;
  while (std::chrono::steady_clock::now() < end) {
  }
}

template <class Echo>
double sync_us(Echo& echo) {
  return p50_us(kCalls, [&] { echo.call(); });
}

// From a thread that is kept on core 0.
template <class Reference>
void put_ends(const Ends& ends, const Reference& reference, const EngineEcho& engine) {
  reference.stay_on(ends.there);
  engine.stay_on(ends.there);
}

// One call at a time over the network, against the barest one, with both ends on two cores and on one.
template <class Reference>
void sync_rows(Report& report, RowSpec spec, Reference& reference, EngineEcho& engine) {
  const std::string name = spec.name;
  for (const Ends& ends : {kTwoCores, kOneCore}) {
    put_ends(ends, reference, engine);
    spec.name = name + ends.suffix;
    report.ratio(
        spec, [&] { return p50_us(4000, [&] { reference.call(); }); },
        [&] { return p50_us(4000, [&] { engine.call(); }); });
  }
  put_ends(kTwoCores, reference, engine);
}

template <class Echo>
double after_idle_us(Echo& echo) {
  std::vector<double> spans;
  for (int i = 0; i < 200; ++i) {
    rest(1ms);
    const uint64_t begin = TickClock::now();
    echo.call();
    spans.push_back(TickClock::microseconds(TickClock::now() - begin));
  }
  return percentile(spans, 0.5);
}

void one_at_a_time(Report& report) {
  const OnCore here(0);
  RawRingEcho raw;
  EventfdPingPong eventfd;
  EngineEcho engine;
  engine.stay_on(kTwoCores.there);
  report.ratio(
      {"call.same_node.sync", "us", Better::kLower, "raw ring round trip", 3}, [&] { return sync_us(raw); },
      [&] { return sync_us(engine); });
  for (const Ends& ends : {kTwoCores, kOneCore}) {
    put_ends(ends, eventfd, engine);
    report.ratio(
        {std::string("call.same_node.after_1ms_idle") + ends.suffix, "us", Better::kLower,
         "eventfd ping-pong after 1 ms", 1.5},
        [&] { return after_idle_us(eventfd); }, [&] { return after_idle_us(engine); });
  }
}

void idle_peers(Report& report) {
  EngineEcho alone, crowded({.idle_peers = 100});
  report.ratio(
      {"call.same_node.100_idle_peers", "us", Better::kLower, "the same without idle peers", 1.1},
      [&] { return sync_us(alone); }, [&] { return sync_us(crowded); });
}

void in_flight(Report& report) {
  const OnCore here(0);
  SocketEcho socket(unix_pair());
  EngineEcho engine;
  put_ends(kTwoCores, socket, engine);
  for (const size_t window : {size_t{64}, size_t{1000}})
    report.ratio(
        {"call.same_node.in_flight_" + std::to_string(window), "calls/s", Better::kHigher, "coalesced unix-socket echo",
         0.5},
        [&] { return socket.calls_per_second(window, kSpan); }, [&] { return engine.calls_per_second(window, kSpan); });
}

void two_nodes(Report& report) {
  const OnCore here(0);
  SocketEcho socket(tcp_pair());
  EngineEcho engine({.tcp = true});
  sync_rows(report, {"call.tcp.sync", "us", Better::kLower, "raw TCP ping-pong", 1.25}, socket, engine);
  report.ratio(
      {"call.tcp.in_flight_1000", "calls/s", Better::kHigher, "coalesced TCP echo", 0.5},
      [&] { return socket.calls_per_second(1000, kSpan); }, [&] { return engine.calls_per_second(1000, kSpan); });
}

// Between machines: nodes of one machine (the clusters of the other benchmarks) do not encrypt.
void two_machines(Report& report) {
  const OnCore here(0);
  TlsEcho openssl(tcp_pair());
  EngineEcho engine({.tcp = true, .tls = true});
  sync_rows(report, {"call.tls.sync", "us", Better::kLower, "OpenSSL ping-pong", 1.25}, openssl, engine);
  report.ratio(
      {"call.tls.in_flight_1000", "calls/s", Better::kHigher, "OpenSSL echo", 0.8},
      [&] { return openssl.calls_per_second(1000, kSpan); }, [&] { return engine.calls_per_second(1000, kSpan); });
}

// Calls per second of `pairs` callers in processes of their own, all at the same time; window 1: one at a
// time.
double pairs_rate(int pairs, size_t window) {
  struct Board {
    std::atomic<int> ready, go;
    std::array<std::atomic<double>, 4> rates;
  };
  Shared<Board> board;
  std::vector<Child> callers;
  for (int i = 0; i < pairs; ++i)
    callers.emplace_back([&board, i, window] {
      EngineEcho echo;
      echo.call();
      ++board->ready;
      while (board->go == 0) rest(100us);
      board->rates[static_cast<size_t>(i)] = echo.calls_per_second(window, kSpan);
      ++board->ready;
    });
  while (board->ready < pairs) rest(100us);
  board->go = 1;
  while (board->ready < 2 * pairs) rest(1ms);
  double sum = 0;
  for (const auto& rate : board->rates) sum += rate;
  return sum;
}

void four_pairs(Report& report) {
  report.ratio(
      {"call.same_node.4_pairs_sync", "calls/s", Better::kHigher, "one pair", 0.4}, [] { return pairs_rate(1, 1); },
      [] { return pairs_rate(4, 1); });
  report.ratio(
      {"call.same_node.4_pairs_in_flight_64", "calls/s", Better::kHigher, "one pair", 1},
      [] { return pairs_rate(1, 64); }, [] { return pairs_rate(4, 64); });
}

// An urgent request to a process whose method computes; a second caller keeps the methods coming.
void busy_owner(Report& report) {
  for (const auto& [name, span] : {std::pair{"100us", 100us}, {"1ms", 1'000us}, {"1s", 1'000'000us}}) {
    EngineEcho owner({.work = [span] { spin_for(span); }, .long_work = true});
    report.absolute({std::string("reference.of_busy_owner.methods_of_") + name, "us", Better::kLower, "", 200},
                    [&] { return owner.urgent_p50_us(span < 1s ? 200 : 50); });
  }
}

}  // namespace
}  // namespace rayo::bench

int main(int argc, char** argv) {
  using namespace rayo::bench;
  Report report;
  Sections sections(argc, argv);
  sections.run("one_at_a_time", [&] { one_at_a_time(report); });
  sections.run("idle_peers", [&] { idle_peers(report); });
  sections.run("in_flight", [&] { in_flight(report); });
  sections.run("two_nodes", [&] { two_nodes(report); });
  sections.run("two_machines", [&] { two_machines(report); });
  sections.run("four_pairs", [&] { four_pairs(report); });
  sections.run("busy_owner", [&] { busy_owner(report); });
  report.print();
  return sections.failed() ? 1 : 0;
}
