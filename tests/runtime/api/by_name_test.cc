// Calls by name: if these fail, an actor of another language or program cannot be called, or what is wrong with a call is
// not told.
#include <gmock/gmock.h>
#include <map>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "tests/runtime/api/backends.h"

namespace shop {

struct Line {
  std::string item;
  double price = 0;
};

struct Order {
  std::vector<Line> lines;
  std::optional<std::string> note{};
};

class Till {
 public:
  explicit Till(int64_t float_) : total_(static_cast<double>(float_)) {}
  double pay(const Order& order) {
    for (const Line& line : order.lines) total_ += line.price;
    return total_;
  }
  Order last(std::string item) { return {.lines = {{.item = std::move(item), .price = total_}}, .note = "paid"}; }
  int64_t count(const std::map<std::string, std::vector<int64_t>>& stock) {
    int64_t sum = 0;
    for (const auto& [item, numbers] : stock)
      for (int64_t n : numbers) sum += n;
    return sum;
  }
  int8_t small(int8_t n) { return n; }
  void fail() { throw std::runtime_error("the drawer is stuck"); }
  double owner(const rayo::ActorHandle<void>& other) { return other.call<double>("pay", std::tuple<>()).get(); }

 private:
  double total_;
};
const auto exposed_till = rayo::expose<Till, &Till::pay, &Till::last, &Till::count, &Till::small, &Till::fail,
                                       &Till::owner, rayo::constructor<int64_t>>;

struct Rate {
  int64_t twice(int64_t n) { return 2 * n; }
};

double half(double x) { return x / 2; }
const auto exposed_functions = rayo::expose_functions<half>;

}  // namespace shop

namespace left {
int64_t twin() { return 1; }
}  // namespace left
namespace right {
int64_t twin() { return 2; }
}  // namespace right
const auto exposed_twins = rayo::expose_functions<left::twin, right::twin>;

namespace {

using shop::Line;
using shop::Order;
using shop::Till;

class ByNameTest : public ApiTest {};

template <class E, class F>
E thrown_by(F&& code) {
  try {
    code();
  } catch (const E& error) {
    return error;
  }
  ADD_FAILURE() << "nothing of that type was thrown";
  throw;
}

bool has(const rayo::Error& error, std::string_view part) {
  return std::string_view(error.what()).find(part) != std::string_view::npos;
}

TEST_F(ByNameTest, MethodsOfAnActorAreCalledWithoutItsClass) {
  auto till = rayo::spawn<Till>({.name = "till"}, int64_t{10});
  rayo::ActorHandle<void> named = rayo::actor("till");
  const Order order{.lines = {{"tea", 2.5}, {"rice", 1}}, .note = std::nullopt};
  EXPECT_EQ(named.call<double>("pay", order).get(), 13.5);
  // What another language makes of it: lists in the place of aggregates.
  using Pair = std::tuple<std::string, double>;
  EXPECT_EQ(
      named.call<double>("pay", std::tuple(std::vector<Pair>{{"milk", 0.5}}, std::optional<std::string>("x"))).get(),
      14);
  EXPECT_EQ(named.call<int64_t>("count", std::map<std::string, std::vector<int64_t>>{{"a", {1, 2}}, {"b", {3}}}).get(),
            6);
  const Order last = named.call<Order>("last", "jam").get();
  EXPECT_EQ(last.lines.at(0).item, "jam");
  EXPECT_EQ(last.note, "paid");
  EXPECT_EQ(named, rayo::ActorHandle<void>(till));
}

TEST_F(ByNameTest, RefsAndHandlesAreArguments) {
  auto till = rayo::spawn<Till>(int64_t{0});
  rayo::ActorHandle<void> named = till;
  auto order = named.call<Order>("last", "jam");
  EXPECT_EQ(named.call<double>("pay", order).get(), 0);                                  // a portable value
  EXPECT_EQ(till.call<&Till::pay>(order).get(), 0);                                      // which typed calls take too
  EXPECT_EQ(named.call<double>("pay", rayo::put(Order{.lines = {{"a", 7}}})).get(), 7);  // and one with its shape
  auto other = rayo::spawn<Till>(int64_t{5});
  const auto answer = named.call<double>("owner", rayo::ActorHandle<void>(other)).try_get();
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().text.find("argument 1 of shop::Till::pay"), std::string::npos) << answer.error().text;
}

TEST_F(ByNameTest, AWrongCallSaysWhatThereIs) {
  rayo::ActorHandle<void> till = rayo::spawn<Till>(int64_t{0});
  const auto unknown = thrown_by<rayo::Invalid>([&] { till.call<double>("lend", 1).get(); });
  EXPECT_TRUE(has(unknown, "the C++ class shop::Till has no method 'lend'")) << unknown.what();
  EXPECT_TRUE(has(unknown, "small(signed char)")) << unknown.what();
  const auto count = thrown_by<rayo::Invalid>([&] { till.call<double>("fail", 1, 2).get(); });
  EXPECT_TRUE(has(count, "shop::Till::fail was called with 2 arguments: it takes fail()")) << count.what();
  const auto type = thrown_by<rayo::TypeMismatch>([&] { till.call<double>("small", "x").get(); });
  EXPECT_TRUE(has(type, "argument 1 of shop::Till::small(signed char): a value does not fit 'signed char'"))
      << type.what();
  const auto range = thrown_by<rayo::TypeMismatch>([&] { till.call<int64_t>("small", 300).get(); });
  EXPECT_TRUE(has(range, "300")) << range.what();
  const auto result = thrown_by<rayo::TypeMismatch>([&] { till.call<std::string>("small", 3).get(); });
  EXPECT_TRUE(has(result, "expected text, found an integer")) << result.what();
}

TEST_F(ByNameTest, WhatAMethodThrowsNamesTheMethod) {
  rayo::ActorHandle<void> till = rayo::spawn<Till>(int64_t{0});
  const auto error = thrown_by<rayo::TaskError>([&] { till.call<void>("fail").get(); });
  EXPECT_EQ(error.remote_type(), "std::runtime_error");
  EXPECT_TRUE(has(error, "shop::Till::fail threw std::runtime_error: the drawer is stuck")) << error.what();
}

// Classes and functions are made and called by name from Python: here by hand.
rayo::internal::CallRequest request_of(const rayo::Encoder& arguments, uint64_t function) {
  return {.function = function, .arguments = arguments.view(), .name = "by name"};
}

TEST_F(ByNameTest, ClassesAndFunctionsHaveNames) {
  rayo::internal::Backend& backend = rayo::internal::backend();
  rayo::Encoder made;
  made.array(2);
  made.text("Till");
  made.array(1);
  made.integer(40);
  rayo::ActorHandle<void> till(rayo::internal::CountedActor(
      backend, backend.spawn({}, "shop::Till", request_of(made, rayo::internal::kNamedConstructor))));
  EXPECT_EQ(till.call<double>("pay", Order{.lines = {{"b", 2}}}).get(), 42);

  rayo::Encoder called;
  called.array(2);
  called.text("shop::half");
  called.array(1);
  called.integer(42);
  rayo::ObjectRef<double> half(
      rayo::internal::CountedRef(backend, backend.submit({}, request_of(called, rayo::internal::kNamedTask))));
  EXPECT_EQ(half.get(), 21);

  rayo::Encoder none;
  none.array(0);
  using Entry = std::tuple<int64_t, std::string, std::string, std::string, int64_t, std::string>;
  rayo::ObjectRef<std::vector<Entry>> described(
      rayo::internal::CountedRef(backend, backend.submit({}, request_of(none, rayo::internal::kDescribe))));
  const std::vector<Entry> all = described.get();
  EXPECT_THAT(all, testing::Contains(Entry{1, "shop::Till", "small", "(signed char)", 1, "signed char"}));
  EXPECT_THAT(all, testing::Contains(Entry{2, "", "shop::Till", "(long int)", 1, ""}));
  EXPECT_THAT(all, testing::Contains(Entry{0, "", "shop::half", "(double)", 1, "double"}));
}

TEST_F(ByNameTest, ANameThatTwoHaveIsToldWithBoth) {
  rayo::internal::Backend& backend = rayo::internal::backend();
  rayo::Encoder called;
  called.array(2);
  called.text("twin");
  called.array(0);
  rayo::ObjectRef<int64_t> twin(
      rayo::internal::CountedRef(backend, backend.submit({}, request_of(called, rayo::internal::kNamedTask))));
  const auto error = thrown_by<rayo::Invalid>([&] { twin.get(); });
  EXPECT_TRUE(has(error, "'twin' names 2 things of this program")) << error.what();
  EXPECT_TRUE(has(error, "left::twin()") && has(error, "right::twin()")) << error.what();
}

TEST_F(ByNameTest, AClassThatCannotBeMadeIsNamed) {
  rayo::internal::Backend& backend = rayo::internal::backend();
  rayo::Encoder made;
  made.array(2);
  made.text("Rate");
  made.array(0);
  rayo::ActorHandle<void> rate(rayo::internal::CountedActor(
      backend, backend.spawn({}, "Rate", request_of(made, rayo::internal::kNamedConstructor))));
  const auto error = thrown_by<rayo::Error>([&] { rate.call<double>("twice", 1).get(); });
  EXPECT_TRUE(has(error, "this program has no class that can be made 'Rate' for other languages")) << error.what();
}

}  // namespace
