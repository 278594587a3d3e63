// What a user loses if these fail: a log that no program can read, since a line is cut, doubled or not JSON.
#include "runtime/cli/json_log.h"

#include <boost/json.hpp>
#include <cstdlib>
#include <ctime>
#include <gtest/gtest.h>
#include <sstream>

namespace rayo::cli {
namespace {

namespace json = boost::json;

std::vector<json::object> objects(const std::ostringstream& out) {
  std::vector<json::object> lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line).as_object());
  return lines;
}

TEST(JsonLog, IsOneObjectALineHoweverTheBytesCome) {
  std::ostringstream out;
  JsonLog log(out, {.node = "4f2a", .pid = 12, .name = "Counter"});
  log.add("one\ntw", false);
  log.add("worse\n", true);
  log.add("o\n\nlast", false);
  log.finish();
  const auto lines = objects(out);
  std::vector<std::string> told;
  for (const auto& line : lines) {
    EXPECT_EQ(line.size(), 7u);
    EXPECT_EQ(line.at("schema"), 1);
    EXPECT_TRUE(line.at("at").is_null());
    EXPECT_EQ(line.at("node"), "4f2a");
    EXPECT_EQ(line.at("pid"), 12);
    EXPECT_EQ(line.at("name"), "Counter");
    told.push_back(std::string(line.at("stream").as_string()) + ":" + std::string(line.at("text").as_string()));
  }
  EXPECT_EQ(told, (std::vector<std::string>{"stdout:one", "stderr:worse", "stdout:two", "stdout:", "stdout:last"}));
}

TEST(JsonLog, TellsTheTimeThatADaemonsLineBeginsWith) {
  std::ostringstream out;
  JsonLog log(out, {.name = "head", .daemon = true});
  log.add("2026-12-01T12:18:38.250 I head: answers\nno time\n2026-12-01T12:18:38.2\n", true);
  tm parts{.tm_sec = 38, .tm_min = 18, .tm_hour = 12, .tm_mday = 1, .tm_mon = 11, .tm_year = 126, .tm_isdst = -1};
  const auto lines = objects(out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_DOUBLE_EQ(lines[0].at("at").as_double(), static_cast<double>(std::mktime(&parts)) + 0.25);
  EXPECT_EQ(lines[0].at("text"), "2026-12-01T12:18:38.250 I head: answers");
  EXPECT_TRUE(lines[0].at("node").is_null());
  EXPECT_TRUE(lines[0].at("pid").is_null());
  EXPECT_TRUE(lines[1].at("at").is_null());
  EXPECT_TRUE(lines[2].at("at").is_null());
}

}  // namespace
}  // namespace rayo::cli
