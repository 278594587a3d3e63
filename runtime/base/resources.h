// Amounts of resources in fixed point (1/10,000), so that used + free = total holds after any history.
//
//   Resources node{{"cpu", Amount::of(8)}, {"gpu", Amount::of(2)}};
//   Resources ask{{"cpu", Amount::of(0.5)}};
//   if (node.get("gpu") >= ask.get("gpu")) node -= ask;
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace rayo::base {

// A quantity in units of 1/10,000: a CPU is 10,000 of them, a byte of "memory" too.
struct Amount {
  static constexpr int64_t kScale = 10'000;
  // More than any node offers or program asks for: of a name, and of "memory" as far as the fixed point holds it.
  static constexpr int64_t kMost = 1'000'000'000;
  static constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max() / kScale;
  int64_t units = 0;

  // Rounds to the nearest 1/10,000.
  static Amount of(double value);
  double value() const { return static_cast<double>(units) / kScale; }
  std::string text() const;  // "0.5", "8"

  friend auto operator<=>(const Amount&, const Amount&) = default;
  friend Amount operator+(Amount a, Amount b) { return {a.units + b.units}; }
  friend Amount operator-(Amount a, Amount b) { return {a.units - b.units}; }
};

// A named bag of amounts; what is absent is zero, and zeros are not stored. The well-known names are "cpu", "gpu" and
// "memory" (bytes); every other name is a custom resource.
class Resources {
 public:
  Resources() = default;
  Resources(std::initializer_list<std::pair<const std::string, Amount>> amounts);

  Amount get(std::string_view name) const;
  void set(std::string_view name, Amount amount);

  bool empty() const { return amounts_.empty(); }
  Resources& operator+=(const Resources& other);
  Resources& operator-=(const Resources& other);  // may go below zero
  friend bool operator==(const Resources&, const Resources&) = default;

  const std::map<std::string, Amount, std::less<>>& amounts() const { return amounts_; }
  std::string text() const;  // "{cpu: 0.5, gpu: 1}"

 private:
  std::map<std::string, Amount, std::less<>> amounts_;
};

}  // namespace rayo::base
