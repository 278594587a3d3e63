// The most frequent words of a text: a task for each part of it counts (map), a named actor adds up (reduce).
// What the tasks count goes from their nodes to the actor's and never comes by here.
//
//   wordcount [TEXT, default /usr/share/common-licenses/GPL-3]
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <rayo/rayo.h>

using Counts = std::map<std::string, int64_t>;

Counts count_words(const std::string& text, size_t begin, size_t end) {
  const auto in_word = [&](size_t i) { return std::isalpha(static_cast<unsigned char>(text[i])) != 0; };
  while (begin > 0 && begin < end && in_word(begin - 1) && in_word(begin)) ++begin;  // the part before has this word
  Counts counts;
  std::string word;
  for (size_t i = begin; i < text.size() && (i < end || (!word.empty() && in_word(i))); ++i) {
    if (in_word(i))
      word.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(text[i]))));
    else if (!word.empty())
      ++counts[std::exchange(word, {})];
  }
  if (!word.empty()) ++counts[word];
  return counts;
}

struct Tally {
  Counts total;
  void add(const Counts& part) {
    for (const auto& [word, times] : part) total[word] += times;
  }
  std::vector<std::pair<std::string, int64_t>> top(size_t count) const {
    std::vector<std::pair<std::string, int64_t>> words(total.begin(), total.end());
    std::stable_sort(words.begin(), words.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    words.resize(std::min(count, words.size()));
    return words;
  }
};

// Runs anywhere: finds the actor by its name.
void add_to_tally(const Counts& part) { rayo::actor<Tally>("tally").call<&Tally::add>(part).get(); }

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  const char* path = argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3";
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "wordcount: cannot read %s\n", path);
    return 1;
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto whole = rayo::put(text);  // once, for all tasks

  auto tally = rayo::spawn<Tally>({.name = "tally"});
  std::vector<rayo::ObjectRef<void>> added;
  const size_t parts = 16;
  for (size_t i = 0; i < parts; ++i) {
    auto counts = rayo::remote<count_words>(whole, i * text.size() / parts, (i + 1) * text.size() / parts);
    added.push_back(rayo::remote<add_to_tally>(counts));
  }
  for (const auto& done : added) done.get();
  for (const auto& [word, times] : tally.call<&Tally::top>(size_t{10}).get())
    std::printf("%6lld %s\n", static_cast<long long>(times), word.c_str());
}
