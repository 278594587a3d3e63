// Rows of bench.json. A row with a reference measures both in turn, at least five times, and its figure is
// the median of the ratios: the machine's own noise hits both. Text for people goes to stderr, the rows as
// one JSON list to stdout:
//
//   {"name", "value", "unit", "better": "lower"|"higher", "reference": {"name", "value"}|null, "ratio"|null, "budget", "holds"}
//
// where the budget is for the ratio, or without a reference for the value.
//
//   bench::Report report;
//   report.ratio({.name = "call.sync", .unit = "us", .better = bench::Better::kLower, .reference = "raw ring", .budget = 3},
//                [] { return measure_raw_ring(); }, [] { return measure_call(); });
//   return report.print();
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>
#include <x86intrin.h>

namespace rayo::bench {

enum class Better { kLower, kHigher };

struct RowSpec {
  std::string name;
  std::string unit;
  Better better = Better::kLower;
  std::string reference;  // what it is measured against; empty: the budget is on the value itself
  double budget = 0;
};

using Measure = std::function<double()>;

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

inline double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(at), values.end());
  return values[at];
}

inline std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

class Report {
 public:
  explicit Report(int rounds = 7) : rounds_(rounds) {}

  // Both in turn; the row's figure is the median of the rounds' ratios.
  void ratio(const RowSpec& spec, const Measure& reference, const Measure& subject) {
    std::vector<double> references, values, ratios;
    for (int round = 0; round < rounds_; ++round) {
      references.push_back(reference());
      values.push_back(subject());
      ratios.push_back(references.back() > 0 ? values.back() / references.back() : 0);
    }
    add(spec, median(values), median(references), median(ratios));
  }

  // The median of the rounds against a budget in the row's own unit.
  void absolute(const RowSpec& spec, const Measure& subject) {
    std::vector<double> values;
    for (int round = 0; round < rounds_; ++round) values.push_back(subject());
    const double value = median(values);
    add(spec, value, 0, value);
  }

  // For a figure that cannot be repeated in rounds.
  void single(const RowSpec& spec, double value, double reference) {
    add(spec, value, reference, spec.reference.empty() ? value : value / reference);
  }

  int print() const {
    std::printf("[");
    for (size_t i = 0; i < rows_.size(); ++i) std::printf("%s%s", i == 0 ? "\n " : ",\n ", rows_[i].c_str());
    std::printf("\n]\n");
    return 0;
  }

 private:
  void add(const RowSpec& spec, double value, double reference, double judged) {
    const bool holds = spec.better == Better::kLower ? judged <= spec.budget : judged >= spec.budget;
    std::string row = "{\"name\": \"" + spec.name + "\", \"value\": " + number(value) + ", \"unit\": \"" + spec.unit +
                      "\", \"better\": \"" + (spec.better == Better::kLower ? "lower" : "higher") + "\", ";
    row += spec.reference.empty()
               ? "\"reference\": null, \"ratio\": null, "
               : "\"reference\": {\"name\": \"" + spec.reference + "\", \"value\": " + number(reference) +
                     "}, \"ratio\": " + number(judged) + ", ";
    row += "\"budget\": " + number(spec.budget) + ", \"holds\": " + (holds ? "true" : "false") + "}";
    rows_.push_back(std::move(row));
    std::fprintf(stderr, "%-34s %10s %-8s %s%s\n", spec.name.c_str(), number(value).c_str(), spec.unit.c_str(),
                 spec.reference.empty() ? "" : ("x " + number(judged) + " of " + spec.reference).c_str(),
                 holds ? "" : "   over budget");
  }

  int rounds_;
  std::vector<std::string> rows_;
};

// The parts of a benchmark by name: those that the command line names (or all) run, and one that fails costs no other
// its rows.
class Sections {
 public:
  Sections(int argc, char** argv) : names_(argv + 1, argv + argc) {}
  void run(std::string_view name, const std::function<void()>& section) {
    const auto fits = [&](const std::string& wanted) { return name.find(wanted) != std::string_view::npos; };
    if (!names_.empty() && std::none_of(names_.begin(), names_.end(), fits)) return;
    try {
      section();
    } catch (const std::exception& error) {
      failed_ = true;
      std::fprintf(stderr, "%s failed: %s\n", std::string(name).c_str(), error.what());
    }
  }
  bool failed() const { return failed_; }

 private:
  std::vector<std::string> names_;
  bool failed_ = false;
};

// Ticks of the processor's clock, for spans of well under a microsecond.
class TickClock {
 public:
  static uint64_t now() { return __rdtsc(); }
  static double microseconds(uint64_t ticks) { return static_cast<double>(ticks) / per_microsecond(); }

 private:
  static double per_microsecond() {
    static const double rate = [] {
      const auto begin = std::chrono::steady_clock::now();
      const uint64_t ticks = now();
      while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) {
      }
      const auto span = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin);
      return static_cast<double>(now() - ticks) / span.count();
    }();
    return rate;
  }
};

// The p50, in microseconds, of `count` runs of `once` after a tenth as many that are not counted; `before`
// each one is not part of it.
template <class Before, class Once>
double p50_us(int count, Before&& before, Once&& once) {
  std::vector<double> spans;
  spans.reserve(static_cast<size_t>(count));
  for (int i = -count / 10; i < count; ++i) {
    before();
    const uint64_t begin = TickClock::now();
    once();
    if (i >= 0) spans.push_back(TickClock::microseconds(TickClock::now() - begin));
  }
  return percentile(spans, 0.5);
}

template <class Once>
double p50_us(int count, Once&& once) {
  return p50_us(
      count, [] {}, once);
}

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace rayo::bench
