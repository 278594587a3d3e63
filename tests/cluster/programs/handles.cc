// Handles of actors that go from node to node while whoever gives them lets go at once: of each way many, since the head hears
// of the giver's end and of the taker in no order. One line a check that failed, exit code 1 if any did.
//
//   cluster_handles calls      in arguments and results
//   cluster_handles values     in values that were put, and in arguments that are refs
//   cluster_handles streams    in items of streams
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <rayo/rayo.h>

namespace {

const rayo::ActorOptions kSmall{.resources = {.cpus = 0.0}};

struct Counter {
  int64_t value = 0;
  int64_t add(int64_t n) { return value += n; }
};
using Handle = rayo::ActorHandle<Counter>;

// `padding` decides where it lies: in messages, or in its node's arena.
struct Basket {
  std::vector<Handle> counters;
  rayo::ObjectRef<int64_t> number;
  std::string padding;
};

Handle make_counter() { return rayo::spawn<Counter>(kSmall); }
Basket basket_of(Handle counter, int64_t padding) {
  return {{std::move(counter)}, rayo::put(int64_t{1}), std::string(static_cast<size_t>(padding), 'x')};
}
rayo::ObjectRef<Basket> put_basket(int64_t padding) { return rayo::put(basket_of(make_counter(), padding)); }
rayo::ObjectRef<Basket> put_given(Handle counter) { return rayo::put(basket_of(std::move(counter), 0)); }

// Writes so many of its own making, and keeps none.
void write_baskets(rayo::StreamWriter<Basket>& to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!to.write(basket_of(make_counter(), 0))) return;
}

int64_t use(const Basket& basket) { return basket.counters.at(0).call<&Counter::add>(1).get(); }
int64_t use_all(const Basket& basket) { return use(basket) * basket.number.get(); }

struct Broker {
  Handle kept{};
  std::thread writer;
  ~Broker() {
    if (writer.joinable()) writer.join();
  }
  Handle make() { return make_counter(); }
  void keep(Handle counter) { kept = std::move(counter); }
  void keep_inside(Basket basket) { kept = basket.counters.at(0); }
  int64_t use() { return kept.call<&Counter::add>(1).get(); }
  rayo::Stream<Basket> pour(int64_t count) {
    auto [out, stream] = rayo::make_stream<Basket>({.window = 8});
    writer = std::thread([count, to = std::move(out)]() mutable { write_baskets(to, count); });
    return std::move(stream);
  }
  int64_t drink(rayo::Stream<Basket> stream) {
    int64_t good = 0;
    for (const Basket& basket : stream) good += use_all(basket);
    return good;
  }
};

int g_failed = 0;

// `way` makes an actor and calls it by the handle that came that way.
void many(int times, const std::string& what, const std::function<int64_t()>& way) {
  std::map<std::string, int> errors;
  int good = 0;
  for (int i = 0; i < times; ++i) {
    try {
      good += way() == 1;
    } catch (const rayo::Error& error) {
      ++errors[error.what()];
    }
  }
  if (good == times) return;
  ++g_failed;
  std::printf("FAILED: %d of %d handles %s are good\n", good, times, what.c_str());
  for (const auto& [text, count] : errors) std::printf("  %d times: %s\n", count, text.c_str());
}

void calls(const rayo::NodeRecord& node) {
  auto broker = rayo::spawn<Broker>({.resources = {.cpus = 0.0}, .node = node.id});
  many(200, "that a method returns", [&] { return broker.call<&Broker::make>().get().call<&Counter::add>(1).get(); });
  many(200, "that a task returns",
       [&] { return rayo::remote<make_counter>({.node = node.id}).get().call<&Counter::add>(1).get(); });
  many(200, "that an actor keeps of an argument", [&] {
    broker.call<&Broker::keep>(make_counter()).get();
    return broker.call<&Broker::use>().get();
  });
}

void values(const rayo::NodeRecord& node) {
  const rayo::TaskOptions there{.node = node.id};
  auto broker = rayo::spawn<Broker>({.resources = {.cpus = 0.0}, .node = node.id});
  many(200, "in a value that a task has put", [&] { return use_all(rayo::remote<put_basket>(there, 0).get().get()); });
  many(40, "in a large value that a task has put",
       [&] { return use_all(rayo::remote<put_basket>(there, 200'000).get().get()); });
  many(100, "given to a task that puts them",
       [&] { return use(rayo::remote<put_given>(there, make_counter()).get().get()); });
  many(100, "that an actor keeps of an argument that is a ref", [&] {
    broker.call<&Broker::keep_inside>(rayo::put(basket_of(make_counter(), 0))).get();
    return broker.call<&Broker::use>().get();
  });
}

void streams(const rayo::NodeRecord& node) {
  constexpr int kItems = 100;
  auto broker = rayo::spawn<Broker>({.resources = {.cpus = 0.0}, .node = node.id});
  auto poured = broker.call<&Broker::pour>(kItems).get();
  many(kItems, "in an item of a stream", [&] { return use_all(poured.next().value()); });
  many(1, "that an actor reads from a stream", [&] {
    auto [writer, stream] = rayo::make_stream<Basket>({.window = 8});
    auto drunk = broker.call<&Broker::drink>(stream);
    write_baskets(writer, kItems);
    writer.close();
    return drunk.get() / kItems;
  });
}

// The process that put them is gone, and nobody has looked for longer than a home keeps what nobody holds.
void read_late(const std::vector<rayo::NodeRecord>& nodes) {
  std::vector<rayo::ObjectRef<Basket>> baskets;
  for (int i = 0; i < 10; ++i)
    for (const rayo::NodeRecord& node : nodes)
      baskets.push_back(rayo::remote<put_basket>({.node = node.id, .max_calls = 1}, i % 2 * 200'000).get());
  std::this_thread::sleep_for(std::chrono::seconds(3));
  size_t next = 0;
  many(static_cast<int>(baskets.size()), "in a value that is read late",
       [&] { return use_all(baskets[next++].get()); });
}

}  // namespace

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  const std::string way = argc > 1 ? argv[1] : "";
  const auto nodes = rayo::nodes();
  for (const rayo::NodeRecord& node : nodes) {
    if (way == "calls") calls(node);
    if (way == "values") values(node);
    if (way == "streams") streams(node);
  }
  if (way == "values") read_late(nodes);
  std::printf("%zu nodes, %s, %d failed\n", nodes.size(), way.c_str(), g_failed);
  return g_failed != 0;
}
