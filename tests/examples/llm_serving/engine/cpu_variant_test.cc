// If these fail, a node whose processor faults on what it advertises kills its engine again and again.
#include "examples/llm_serving/engine/cpu_variant.h"

#include <csignal>
#include <gtest/gtest.h>

namespace serving {
namespace {

TEST(CpuVariant, OneThatDiesInItsTrialIsRuledOutAndSaysHow) {
  const CpuVariant dying{"x86-64-v9", +[]() -> ggml_backend_reg* {
                           raise(SIGILL);
                           return nullptr;
                         }};
  EXPECT_EQ(try_cpu_variant(dying), "died of Illegal instruction");
}

TEST(CpuVariant, OneThatCannotStartIsRuledOut) {
  const CpuVariant empty{"x86-64-v9", +[]() -> ggml_backend_reg* { return nullptr; }};
  EXPECT_EQ(try_cpu_variant(empty), "cannot be started");
}

TEST(CpuVariant, TheFirstThatWorksIsChosen) {
  const CpuChoice& choice = choose_cpu_variant();
  ASSERT_NE(choice.backend, nullptr) << choice.reason;
  for (const CpuVariant& variant : cpu_variants()) {
    if (variant.name == choice.name) break;
    EXPECT_NE(choice.reason.find(variant.name), std::string::npos) << "a better one was passed over without a reason";
  }
  EXPECT_EQ(try_cpu_variant(cpu_variants().back()), "") << "x86-64-v2 works wherever this test runs";
}

}  // namespace
}  // namespace serving
