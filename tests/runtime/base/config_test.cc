// What a user loses if these fail: a typo in rayo.toml changes nothing and says nothing.
#include "runtime/base/config.h"

#include <filesystem>
#include <gtest/gtest.h>

namespace rayo::base {
namespace {

TEST(ConfigTable, EveryDefaultParsesAndHasAReason) {
  for (const Setting& setting : all_settings()) {
    EXPECT_FALSE(setting.reason.empty()) << setting.key;
    EXPECT_TRUE(Config::parse(std::string(setting.key) + " = \"" + std::string(setting.by_default) + "\"\n", "x").ok())
        << setting.key;
  }
}

TEST(ConfigTable, EverySettingIsReadBySomeCode) {
  std::string code;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(RAYO_TEST_SOURCE_DIR "/runtime")) {
    if (entry.path().extension() != ".cc" || entry.path().filename() == "config.cc") continue;
    code += *read_file(entry.path());
  }
  for (const Setting& setting : all_settings()) {
    EXPECT_NE(code.find("\"" + std::string(setting.key) + "\""), std::string::npos)
        << setting.key << " changes nothing";
  }
}

TEST(ConfigTable, AFileOverridesAndIsNamedAsTheSource) {
  auto config = Config::parse("# mine\n[nodes]\nsuspect_after = \"2s\"  # slow switch\n", "rayo.toml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->duration("nodes.suspect_after"), std::chrono::seconds(2));
  EXPECT_EQ(config->entry("nodes.suspect_after").source, "rayo.toml");
  EXPECT_EQ(config->entry("nodes.dead_after_silent").source, "default");
}

TEST(ConfigTable, NoSpanIsNone) {
  for (const char* value : {"0s", "999us", "-1s"}) {
    auto config = Config::parse(std::string("[nodes]\ndead_after_silent = \"") + value + "\"\n", "rayo.toml");
    ASSERT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << value;
  }
}

TEST(ConfigTable, ATypoIsAnErrorThatNamesTheNearestKey) {
  auto config = Config::parse("[nodes]\nsuspekt_after = \"2s\"\n", "rayo.toml");
  ASSERT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(message(config.status()).find("nodes.suspekt_after"), std::string_view::npos);
  EXPECT_NE(next_step(config.status()).find("nodes.suspect_after"), std::string::npos);
  EXPECT_FALSE(Config::parse("garbage\n", "x").ok());
  EXPECT_FALSE(Config::parse("[nodes]\nsuspect_after = 2\n", "x").ok()) << "a duration needs its unit";
}

TEST(ConfigTable, TravelsToANodeAndPassesByWhatThatNodeDoesNotKnow) {
  auto config = Config::parse("nodes.suspect_after = \"2s\"\n", "x");
  ASSERT_TRUE(config.ok()) << config.status();
  auto values = config->values();
  values["of.a_newer_version"] = "1";
  EXPECT_EQ(Config::from_head(values).duration("nodes.suspect_after"), std::chrono::seconds(2));
}

TEST(ConfigTable, AMissingFileIsNamed) {
  EXPECT_EQ(Config::read("/nonexistent/rayo.toml").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Config::read("").ok());
}

}  // namespace
}  // namespace rayo::base
