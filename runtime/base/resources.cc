#include "runtime/base/resources.h"

#include <cmath>

#include "runtime/base/text.h"
#include "runtime/base/units.h"

namespace rayo::base {

Amount Amount::of(double value) { return {std::llround(value * kScale)}; }

std::string Amount::text() const {
  std::string digits = fixed(value(), 4);
  while (digits.back() == '0') digits.pop_back();
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

Resources::Resources(std::initializer_list<std::pair<const std::string, Amount>> amounts) {
  for (const auto& [name, amount] : amounts) set(name, amount);
}

Amount Resources::get(std::string_view name) const {
  auto found = amounts_.find(name);
  return found == amounts_.end() ? Amount{} : found->second;
}

void Resources::set(std::string_view name, Amount amount) {
  auto found = amounts_.find(name);
  if (amount.units == 0) {
    if (found != amounts_.end()) amounts_.erase(found);
  } else if (found != amounts_.end()) {
    found->second = amount;
  } else {
    amounts_.emplace(name, amount);
  }
}

Resources& Resources::operator+=(const Resources& other) {
  for (const auto& [name, amount] : other.amounts_) set(name, get(name) + amount);
  return *this;
}

Resources& Resources::operator-=(const Resources& other) {
  for (const auto& [name, amount] : other.amounts_) set(name, get(name) - amount);
  return *this;
}

std::string Resources::text() const {
  std::string out = "{";
  for (const auto& [name, amount] : amounts_) {
    bool bytes = name == "memory";
    out +=
        cat(out.size() > 1 ? ", " : "", name, ": ", bytes ? format_size(std::llround(amount.value())) : amount.text());
  }
  return out + "}";
}

}  // namespace rayo::base
