// Streams over real processes and nodes, with the deaths of either side: one line a check that failed, exit code 1 if any
// did. Runs once for each pair of nodes that it finds.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <unistd.h>

#include <rayo/rayo.h>

namespace {

using namespace std::chrono_literals;

struct Maker {
  rayo::StreamWriter<int64_t> out;
  std::thread helper;
  ~Maker() {
    if (helper.joinable()) helper.join();
  }
  rayo::Stream<int64_t> open() {
    auto [writer, stream] = rayo::make_stream<int64_t>({.window = 32});
    out = std::move(writer);
    return std::move(stream);
  }
  rayo::Stream<int64_t> count(int64_t n) {
    if (helper.joinable()) helper.join();
    auto [writer, stream] = rayo::make_stream<int64_t>({.window = 32});
    helper = std::thread([n, to = std::move(writer)]() mutable {
      for (int64_t i = 0; i < n; ++i)
        if (!to.write(i)) return;
    });
    return std::move(stream);
  }
  void write(int64_t n) { out.write(n); }
  bool cancelled() { return out.cancelled(); }
  int64_t pid() { return ::getpid(); }
};

struct Reader {
  rayo::Stream<int64_t> in;
  void hold(rayo::Stream<int64_t> stream) { in = std::move(stream); }
  int64_t read() { return in.next(20s).value_or(-1); }
  // How many items came, each in its place.
  int64_t read_all(rayo::Stream<int64_t> stream) {
    int64_t n = 0;
    for (int64_t item : stream) n += item == n ? 1 : -1'000'000;
    return n;
  }
  int64_t pid() { return ::getpid(); }
};

int g_failed = 0;

void check(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++g_failed;
}

template <class Holds>
bool within(std::chrono::seconds limit, Holds holds) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

void whole(const rayo::NodeId& node, const std::string& where) {
  auto maker = rayo::spawn<Maker>({.node = node});
  int64_t expected = 0;
  for (int64_t n : maker.call<&Maker::count>(20'000).get()) {
    if (n != expected) return check(false, "an item is lost, doubled or out of order, " + where);
    ++expected;
  }
  check(expected == 20'000, "the stream ended early, " + where);
}

// The driver writes, also where nobody can dial it.
void from_here(const rayo::NodeId& node, const std::string& where) {
  auto reader = rayo::spawn<Reader>({.node = node});
  auto [writer, stream] = rayo::make_stream<int64_t>({.window = 32});
  auto count = reader.call<&Reader::read_all>(stream);
  for (int64_t i = 0; i < 20'000 && writer.write(i); ++i) {
  }
  writer.close();
  check(count.get(20s) == 20'000, "what the driver wrote did not come whole, " + where);
}

void maker_dies(const rayo::NodeId& node, const std::string& where) {
  auto maker = rayo::spawn<Maker>({.node = node});
  auto stream = maker.call<&Maker::open>().get();
  maker.call<&Maker::write>(1).get();
  check(stream.next(20s) == 1, "the first item, " + where);
  const auto pid = maker.call<&Maker::pid>().get();
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  const auto start = std::chrono::steady_clock::now();
  try {
    stream.next(20s);
    check(false, "a stream outlives its maker, " + where);
  } catch (const rayo::ActorDied& died) {
    check(died.death() != nullptr && died.death()->signal == SIGKILL, "the record names the signal, " + where);
  } catch (const rayo::Error& error) {
    check(false, std::string("ActorDied was due, but: ") + error.what() + ", " + where);
  }
  check(std::chrono::steady_clock::now() - start < 5s, "the death was known too late, " + where);
}

// `reads`: it has read an item before it dies; else it only holds the stream.
void reader_dies(const rayo::NodeId& maker_node, const rayo::NodeId& node, bool reads, const std::string& where) {
  auto maker = rayo::spawn<Maker>({.node = maker_node});
  auto reader = rayo::spawn<Reader>({.node = node});
  {
    auto stream = maker.call<&Maker::open>().get();
    reader.call<&Reader::hold>(stream).get();
  }
  maker.call<&Maker::write>(7).get();
  if (reads) check(reader.call<&Reader::read>().get() == 7, "the reader's item, " + where);
  check(!maker.call<&Maker::cancelled>().get(), "cancelled before anybody died, " + where);
  ::kill(static_cast<pid_t>(reader.call<&Reader::pid>().get()), SIGKILL);
  check(within(15s, [&] { return maker.call<&Maker::cancelled>().get(); }),
        std::string("the maker does not hear that its reader died ") + (reads ? "reading, " : "holding, ") + where);
}

}  // namespace

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  const auto nodes = rayo::nodes();
  for (const rayo::NodeRecord& node : nodes) {
    const std::string where = "maker on " + node.address;
    whole(node.id, where);
    from_here(node.id, where);
    maker_dies(node.id, where);
    for (const rayo::NodeRecord& other : nodes) {
      reader_dies(node.id, other.id, true, where + ", reader on " + other.address);
      reader_dies(node.id, other.id, false, where + ", reader on " + other.address);
    }
  }
  std::printf("%zu nodes, %d failed\n", nodes.size(), g_failed);
  return g_failed == 0 ? 0 : 1;
}
