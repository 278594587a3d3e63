// The API's tests run in this process, and again on a cluster of this program's own: RAYO_TEST_BACKEND=cluster. The
// same promises hold on both.
#pragma once

#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string_view>
#include <thread>

#include <rayo/rayo.h>

inline bool on_cluster() {
  const char* backend = std::getenv("RAYO_TEST_BACKEND");
  return backend != nullptr && std::string_view(backend) == "cluster";
}

// Waits until `holds`, for what reaches the other side by itself.
template <class Holds>
bool soon(Holds&& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
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
