// What a user loses if these fail: a node serves half a model, or another one than its file's name says.
#include "examples/llm_serving/model_copy.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace serving {
namespace {

namespace fs = std::filesystem;

class ModelCopyTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/rayo-copy-XXXXXX";
    folder_ = mkdtemp(pattern);
    fs::create_directory(folder_ / "here");
    std::string text(9 << 20, 'a');  // more than two chunks
    for (size_t i = 0; i < text.size(); i += 4099) text[i] = static_cast<char>(i);
    for (const char* name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
      paths_.push_back(folder_ / "here" / name);
      std::ofstream(paths_.back(), std::ios::binary) << text << name;
    }
    parts_ = *describe_files(paths_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  AwaitChunk ask(size_t part, uint64_t offset, uint64_t bytes) {
    ++asked_;
    const std::string whole = content(paths_[part]).substr(offset, bytes);
    return [whole] { return std::vector<uint8_t>(whole.begin(), whole.end()); };
  }
  Result<std::string> copy(const AskChunk& ask) {
    progress_ = 0;
    return copy_model(parts_, folder_ / "there", ask, [this](double part) {
      EXPECT_GE(part, progress_);
      progress_ = part;
      return true;
    });
  }
  AskChunk good() {
    return [this](size_t part, uint64_t offset, uint64_t bytes) { return ask(part, offset, bytes); };
  }

  fs::path folder_;
  std::vector<std::string> paths_;
  std::vector<ModelPart> parts_;
  int asked_ = 0;
  double progress_ = 0;
};

TEST_F(ModelCopyTest, EveryPartArrivesAsItWas) {
  const Result<std::string> path = copy(good());
  ASSERT_TRUE(path.ok()) << path.problem().what;
  EXPECT_EQ(*path, folder_ / "there" / "m-00001-of-00002.gguf");
  for (const std::string& from : paths_)
    EXPECT_EQ(content(folder_ / "there" / fs::path(from).filename()), content(from));
  EXPECT_EQ(progress_, 1);
}

TEST_F(ModelCopyTest, WhatIsThereIsNotCopiedAgain) {
  ASSERT_TRUE(copy(good()).ok());
  asked_ = 0;
  ASSERT_TRUE(copy(good()).ok());
  EXPECT_EQ(asked_, 0);
  std::ofstream(folder_ / "there" / "m-00002-of-00002.gguf", std::ios::app) << "more";  // no longer what was checked
  ASSERT_TRUE(copy(good()).ok());
  EXPECT_EQ(content(folder_ / "there" / "m-00002-of-00002.gguf"), content(paths_[1]));
}

TEST_F(ModelCopyTest, ADamagedPartIsNeverThereUnderItsName) {
  const Result<std::string> path = copy([this](size_t part, uint64_t offset, uint64_t bytes) -> AwaitChunk {
    return [chunk = ask(part, offset, bytes)()]() mutable {
      chunk[0] ^= 1;
      return chunk;
    };
  });
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.problem().what.find("SHA-256"), std::string::npos) << path.problem().what;
  EXPECT_FALSE(fs::exists(folder_ / "there" / "m-00001-of-00002.gguf"));
}

TEST_F(ModelCopyTest, AChunkThatDoesNotComeIsAnError) {
  const Result<std::string> path = copy([](size_t, uint64_t, uint64_t) -> AwaitChunk {
    return []() -> std::vector<uint8_t> { throw std::runtime_error("gone"); };
  });
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.problem().what.find("gone"), std::string::npos);
}

TEST_F(ModelCopyTest, NoRoomIsToldWithFigures) {
  parts_[1].bytes = uint64_t{1} << 60;
  const Result<std::string> path = copy(good());
  ASSERT_FALSE(path.ok());
  EXPECT_TRUE(path.problem().what.starts_with("no_space: the model needs ")) << path.problem().what;
  EXPECT_EQ(asked_, 0);
}

}  // namespace
}  // namespace serving
