// What a user loses if these fail: a word of the command line means something else than the help says, or a service is
// open to a network without anybody having said so.
#include "examples/llm_serving/serve_options.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "examples/llm_serving/model_path.h"

namespace serving {
namespace {

ServeOptions taken(const std::vector<std::string>& words) {
  const auto parsed = parse_serve_options(words);
  if (const auto* error = std::get_if<UsageError>(&parsed)) {
    ADD_FAILURE() << error->what;
    return {};
  }
  return std::get<ServeOptions>(parsed);
}

std::string refused(const std::vector<std::string>& words) {
  const auto parsed = parse_serve_options(words);
  const auto* error = std::get_if<UsageError>(&parsed);
  if (error == nullptr) ADD_FAILURE() << "taken: " << words.back();
  EXPECT_TRUE(error == nullptr || !error->next.empty());
  return error == nullptr ? "" : error->what;
}

TEST(ServeOptions, ReadsItsFlags) {
  const ServeOptions options =
      taken({"m.gguf", "--replicas", "3", "--port=0", "--name", "n", "--parallel", "4", "--detach"});
  EXPECT_EQ(options.verb, ServeOptions::Verb::kServe);
  EXPECT_EQ(options.model, "m.gguf");
  EXPECT_EQ(options.replicas, 3);
  EXPECT_EQ(options.port, 0);
  EXPECT_EQ(options.name, "n");
  EXPECT_EQ(options.parallel, 4);
  EXPECT_TRUE(options.detach);
  EXPECT_FALSE(taken({"m.gguf"}).replicas);
  EXPECT_FALSE(taken({"m.gguf", "--replicas", "auto"}).replicas);
  EXPECT_EQ(taken({"scale", "2", "--port", "9"}).replicas, 2);
  EXPECT_EQ(taken({"scale", "2", "--name", "n"}).name, "n");
  EXPECT_EQ(taken({"m.gguf"}).step_timeout, 30);
  EXPECT_EQ(taken({"m.gguf", "--step-timeout", "5"}).step_timeout, 5);
  EXPECT_EQ(taken({"stop"}).verb, ServeOptions::Verb::kStop);
  EXPECT_EQ(taken({"status", "--json"}).json, true);
}

TEST(ServeOptions, OthersNeedKeys) {
  EXPECT_EQ(refused({"m.gguf", "--host", "0.0.0.0"}),
            "others could use 0.0.0.0: it needs keys, or a word that it needs none");
  EXPECT_TRUE(taken({"m.gguf", "--host", "0.0.0.0", "--no-auth"}).no_auth);
  EXPECT_EQ(taken({"m.gguf", "--host", "10.0.0.1", "--api-key-file", "f"}).api_key_file, "f");
  EXPECT_EQ(taken({"m.gguf", "--host", "::1"}).host, "::1");
  EXPECT_EQ(refused({"m.gguf", "--host", "localhost.evil.example"}), "--host: 'localhost.evil.example' is no address");
  EXPECT_EQ(refused({"m.gguf", "--host", "127.1", "--no-auth"}), "--host: '127.1' is no address");
  EXPECT_EQ(taken({"m.gguf", "--host", "127.0.0.2"}).host, "127.0.0.2");
  EXPECT_NE(refused({"m.gguf", "--api-key-file", "f", "--no-auth"}), "");
}

TEST(ServeOptions, WrongUseIsTold) {
  EXPECT_EQ(refused({}), "which model?");
  EXPECT_EQ(refused({"m", "--port", "70000"}), "--port: '70000' is no number from 0 to 65535");
  EXPECT_EQ(refused({"m", "--port"}), "--port wants a value");
  EXPECT_EQ(refused({"m", "--replicas", "0"}), "--replicas: '0' is neither a number from 1 nor 'auto'");
  EXPECT_EQ(refused({"m", "--colour", "x"}), "there is no flag --colour");
  EXPECT_EQ(refused({"m", "n"}), "'n' is one word too many");
  EXPECT_EQ(refused({"scale"}), "scale to how many replicas?");
  EXPECT_NE(refused({"m", "--pipeline-parallel-size", "2"}).find("later version"), std::string::npos);
}

TEST(ModelPath, FindsFilesAndNamesInModels) {
  const auto home = std::filesystem::temp_directory_path() / ("rayo-model-path-" + std::to_string(getpid()));
  std::filesystem::create_directories(home / "models");
  std::ofstream(home / "models" / "tiny.gguf") << "GGUF";
  setenv("RAYO_HOME", home.c_str(), 1);
  EXPECT_EQ(*find_model("tiny"), (home / "models" / "tiny.gguf").string());
  EXPECT_EQ(*find_model("tiny.gguf"), (home / "models" / "tiny.gguf").string());
  EXPECT_EQ(*find_model((home / "models" / "tiny.gguf").string()), (home / "models" / "tiny.gguf").string());
  for (const char* part : {"big-00002-of-00002.gguf", "big-00001-of-00002.gguf"})
    std::ofstream(home / "models" / part) << "GGUF";
  EXPECT_EQ(*find_model("big"), (home / "models" / "big-00001-of-00002.gguf").string());
  EXPECT_FALSE(find_model("other"));
  EXPECT_FALSE(find_model("pip:no_such_package_here"));
  const auto package = home / "some_model";
  std::filesystem::create_directories(package / "data");
  std::ofstream(package / "__init__.py") << "";
  setenv("PYTHONPATH", home.c_str(), 1);
  EXPECT_NE(find_model("pip:some-model").problem().what.find("no .gguf file is in"), std::string::npos);
  std::ofstream(package / "data" / "tiny.gguf") << "GGUF";
  EXPECT_EQ(*find_model("pip:some-model"), (package / "data" / "tiny.gguf").string());
  std::filesystem::remove_all(home);
  EXPECT_EQ(model_name_of("/a/big-00001-of-00003.gguf"), "big");
  EXPECT_EQ(model_name_of("/a/tiny.gguf"), "tiny");
}

}  // namespace
}  // namespace serving
