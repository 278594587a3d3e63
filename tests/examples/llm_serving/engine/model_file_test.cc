// If these fail, a person with a broken file or too little memory reads a stack trace instead of what to do.
#include "examples/llm_serving/engine/model_file.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "examples/llm_serving/engine/runner.h"

namespace serving {
namespace {

namespace fs = std::filesystem;

class ModelFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rayo_model_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The first `size` bytes of the test model, with `from` replaced by `to` of the same length.
  std::string part_of_model(const std::string& name, size_t size, const std::string& from = "",
                            const std::string& to = "") {
    std::string bytes(size, '\0');
    std::ifstream(RAYO_TEST_MODEL, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(size));
    for (size_t at = from.empty() ? std::string::npos : bytes.find(from); at != std::string::npos;
         at = bytes.find(from, at + 1))
      bytes.replace(at, from.size(), to);
    return write(name, bytes);
  }

  std::string write(const std::string& name, const std::string& bytes) {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  static void expect_problem(const Problem& problem, const std::string& words) {
    EXPECT_NE(problem.what.find(words), std::string::npos) << problem.what;
    EXPECT_FALSE(problem.next.empty()) << problem.what;
  }

  fs::path folder_;
};

TEST_F(ModelFileTest, TheTestModelIsWhole) {
  const Result<ModelFile> file = check_model_file(RAYO_TEST_MODEL);
  ASSERT_TRUE(file.ok()) << file.problem().what;
  EXPECT_EQ(file->architecture, "llama");
  EXPECT_EQ(file->trained_context, 8192);
  EXPECT_EQ(file->size_bytes, fs::file_size(RAYO_TEST_MODEL));
  EXPECT_EQ(file->kv_bytes_per_token, 30u * 3 * (64 + 64) * 2);
}

TEST_F(ModelFileTest, EachBrokenFileSaysHow) {
  expect_problem(check_model_file(folder_ / "none.gguf").problem(), "there is no model file");
  expect_problem(check_model_file(folder_).problem(), "is not a file");
  expect_problem(check_model_file(write("text.gguf", "hello, I am no model")).problem(), "is not a GGUF file");
  expect_problem(check_model_file(write("empty.gguf", "")).problem(), "is not a GGUF file");
  expect_problem(check_model_file(part_of_model("header.gguf", 100'000)).problem(), "header");
  expect_problem(check_model_file(part_of_model("tail.gguf", 50'000'000)).problem(),
                 "is cut off: 50000000 bytes of 98362");
}

TEST_F(ModelFileTest, AMissingPartIsNamed) {
  fs::create_symlink(RAYO_TEST_MODEL, folder_ / "m-00001-of-00003.gguf");
  fs::create_symlink(RAYO_TEST_MODEL, folder_ / "m-00003-of-00003.gguf");
  expect_problem(check_model_file(folder_ / "m-00001-of-00003.gguf").problem(), "m-00002-of-00003.gguf");
  expect_problem(check_model_file(folder_ / "m-00003-of-00003.gguf").problem(), "is part 3 of 3");
}

TEST_F(ModelFileTest, AnotherFileOfTheNameOrHalfOfTheModelIsNotTheModel) {
  write("m-00001-of-00002.gguf", "GGUF");
  EXPECT_FALSE(is_whole(folder_ / "m-00001-of-00002.gguf", 4));
  write("m-00002-of-00002.gguf", "more");
  EXPECT_TRUE(is_whole(folder_ / "m-00001-of-00002.gguf", 8));
  EXPECT_FALSE(is_whole(folder_ / "m-00001-of-00002.gguf", 9));
  EXPECT_TRUE(is_whole(RAYO_TEST_MODEL, fs::file_size(RAYO_TEST_MODEL)));
  EXPECT_FALSE(is_whole(folder_ / "none.gguf", 0));
}

TEST_F(ModelFileTest, AModelLargerThanMemoryIsRefusedWithFigures) {
  const Result<ModelFile> file = check_model_file(RAYO_TEST_MODEL);
  ASSERT_TRUE(file.ok());
  expect_problem(check_memory(*file, 1000, 50 << 20).problem(), "weights 93.8 MiB");
  expect_problem(check_memory(*file, 1000, 100 << 20).problem(), "1000 tokens 22.0 MiB");
  EXPECT_TRUE(check_memory(*file, 1000, 200 << 20).ok());
  EngineOptions options;
  options.model_path = RAYO_TEST_MODEL;
  bool loading = false;
  const auto runner = Runner::load(options, 50 << 20, [&](double) { return loading = true; });
  ASSERT_FALSE(runner.ok());
  expect_problem(runner.problem(), "50.0 MiB of memory is free");
  EXPECT_FALSE(loading) << "it must be refused before anything is loaded";
}

TEST_F(ModelFileTest, AnUnknownArchitectureIsNamed) {
  EngineOptions options;
  options.model_path = part_of_model("odd.gguf", fs::file_size(RAYO_TEST_MODEL), "llama", "lqama");
  const auto runner = Runner::load(options, 8ull << 30, nullptr);
  ASSERT_FALSE(runner.ok());
  expect_problem(runner.problem(), "lqama");
}

TEST_F(ModelFileTest, ALoadCanBeCancelled) {
  EngineOptions options;
  options.model_path = RAYO_TEST_MODEL;
  options.kv_tokens = 256;
  EXPECT_FALSE(Runner::load(options, 8ull << 30, [](double part) { return part < 0.5; }).ok());
}

}  // namespace
}  // namespace serving
