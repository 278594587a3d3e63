// The API's tests run in this process, and again on a cluster of this program's own: RAYO_TEST_BACKEND=cluster. The
// same promises hold on both.
#pragma once

#include <cstdlib>
#include <gtest/gtest.h>
#include <string_view>

#include <rayo/rayo.h>

inline bool on_cluster() {
  const char* backend = std::getenv("RAYO_TEST_BACKEND");
  return backend != nullptr && std::string_view(backend) == "cluster";
}

class ApiTest : public testing::Test {
 protected:
  void SetUp() override {
    if (on_cluster()) {
      rayo::init({.num_cpus = 4});
    } else {
      rayo::init({.in_process = true});
    }
  }
  void TearDown() override { rayo::shutdown(); }
};
