// What of an answer may be shown: whole UTF-8 characters, and nothing that could still become a stop string.
//
//   StopMatcher matcher({"\n\n"});
//   matcher.push("Paris.\n");  // "Paris."; the line's end waits
//   matcher.push("\n");        // ""; matcher.stopped()
//   matcher.finish();          // what was held back and no stop string: here nothing
//
// What it gives depends on the pieces alone: fed the same tokens again (a replay), it holds the same rest back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace serving {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  // The bytes of one token; gives the text that is certain now. Nothing after stopped().
  std::string push(std::string_view bytes);
  // The end: the rest, in which each broken character is one U+FFFD.
  std::string finish();
  // A stop string was found; it and what follows it are not shown.
  bool stopped() const { return stopped_; }

 private:
  std::string release(size_t count);

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

// How many bytes at the end of `text` are the beginning of a character that more bytes could complete.
size_t incomplete_tail(std::string_view text);
// `text` with each maximal broken part replaced by U+FFFD, as the Unicode standard advises.
std::string repaired(std::string_view text);

}  // namespace serving
