// What tests/python/cpp_test.py calls from Python; alone it calls nothing.
//
//   python_shop
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include <rayo/rayo.h>

namespace shop {

struct Line {
  std::string item;
  double price = 0;
};

struct Order {
  std::vector<Line> lines;
  std::optional<std::string> note{};
};

struct Sorry : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Till {
 public:
  explicit Till(int64_t start) : total_(static_cast<double>(start)) {
    if (start < 0) throw Sorry("a till begins with nothing or more");
  }

  double pay(const Order& order) {
    for (const Line& line : order.lines) total_ += line.price;
    return total_;
  }
  double total() const { return total_; }
  Order receipt(std::string item, std::optional<std::string> note) {
    return {.lines = {{.item = std::move(item), .price = total_}}, .note = std::move(note)};
  }
  void fail(std::string why) { throw Sorry(why); }
  int8_t small(int8_t n) { return n; }
  uint64_t large(uint64_t n) { return n; }
  std::vector<double> halves(const std::vector<double>& numbers) {
    std::vector<double> out;
    for (double n : numbers) out.push_back(n / 2);
    return out;
  }
  std::map<std::string, int64_t> count(const std::vector<std::string>& words) {
    std::map<std::string, int64_t> counts;
    for (const std::string& word : words) ++counts[word];
    return counts;
  }
  std::vector<std::byte> reversed(const std::vector<std::byte>& bytes) { return {bytes.rbegin(), bytes.rend()}; }
  // Handles of any class, and refs, come and go.
  double add_total_of(const rayo::ActorHandle<void>& other) { return total_ += other.call<double>("total").get(); }
  rayo::ActorHandle<Till> branch() { return rayo::spawn<Till>(int64_t{7}); }
  std::vector<rayo::ObjectRef<int64_t>> refs() { return {rayo::put(int64_t{1}), rayo::put(int64_t{2})}; }
  std::string node() { return rayo::context().node.hex(); }
  int64_t pid() { return ::getpid(); }
  std::string variable(std::string name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? "" : value;
  }
  bool wait_for_cancel() {
    while (!rayo::is_cancelled()) ::usleep(1000);
    return true;
  }
  void crash() {
    std::puts("out of paper");
    std::abort();
  }

 private:
  double total_;
};
const auto exposed_till =
    rayo::expose<Till, &Till::pay, &Till::total, &Till::receipt, &Till::fail, &Till::small, &Till::large, &Till::halves,
                 &Till::count, &Till::reversed, &Till::add_total_of, &Till::branch, &Till::refs, &Till::node,
                 &Till::pid, &Till::variable, &Till::wait_for_cancel, &Till::crash, rayo::constructor<int64_t>>;

double sum(const std::vector<double>& numbers) {
  double total = 0;
  for (double n : numbers) total += n;
  return total;
}
double sum_of_two(double a, double b) { return a + b; }
std::string where() { return rayo::context().node.hex(); }
std::vector<int64_t> up_to(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(i);
  return out;
}
void always_fails() { throw Sorry("closed today"); }
const auto exposed_functions = rayo::expose_functions<sum, sum_of_two, where, up_to, always_fails>;

}  // namespace shop

int main(int argc, char** argv) { rayo::init(argc, argv); }
