// A driver on a FakeRaylet whose workers are this program again, and what its functions and tests share.
#pragma once

#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <rayo/internal/registry.h>

#include "runtime/worker/process.h"
#include "tests/runtime/worker/fake_raylet.h"

namespace rayo::worker {

inline internal::Backend* g_backend = nullptr;  // of this process: driver or worker

// Values are plain 64-bit numbers here, since coding is the API's business.
template <class T>
T load(internal::Bytes bytes, size_t at = 0) {
  T value{};
  if (bytes.size() >= at + sizeof value) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
inline void store(std::vector<std::byte>* out, int64_t value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out->insert(out->end(), bytes, bytes + sizeof value);
}

struct Read {
  int64_t number = 0;
  std::optional<ErrorRecord> error;
  size_t size = 0;
};
inline internal::ObjectHandle put_bytes(internal::Bytes value) { return g_backend->put({&value, 1}, {}, {}); }
inline Read get(const internal::ObjectHandle& object, std::chrono::nanoseconds timeout = std::chrono::seconds(20)) {
  Read out;
  const bool done = g_backend->get(
      object, timeout,
      [](void* context, const internal::ValueView& value) {
        auto& read = *static_cast<Read*>(context);
        if (value.error) read.error = *value.error;
        read.number = load<int64_t>(value.bytes);
        read.size = value.bytes.size();
      },
      &out);
  if (!done) out.error = ErrorRecord{.kind = ErrorKind::kTimeout, .text = "test: get timed out"};
  return out;
}

class ProcessTest : public testing::Test {
 protected:
  explicit ProcessTest(std::chrono::milliseconds idle_link = {}) : raylet_(idle_link) {}
  void SetUp() override {
    auto connected = Process::connect({.raylet_socket = raylet_.socket(), .arguments = {"test"}});
    ASSERT_TRUE(connected.ok()) << connected.status();
    driver_ = std::move(*connected);
    g_backend = &driver_->backend();
  }
  void TearDown() override {
    if (driver_) driver_->shutdown();
  }

  ActorId spawn(int64_t start) {
    return g_backend->spawn({}, "Counter", {.function = 1, .arguments = std::as_bytes(std::span(&start, 1))});
  }
  static internal::ObjectHandle call(const ActorId& actor, uint64_t function, int64_t argument = 0,
                                     std::vector<ActorId> more = {}) {
    std::vector<std::byte> arguments;
    store(&arguments, argument);
    for (const ActorId& id : more)
      arguments.insert(arguments.end(), reinterpret_cast<const std::byte*>(&id),
                       reinterpret_cast<const std::byte*>(&id + 1));
    return g_backend->call(actor, {.function = function, .arguments = arguments, .inner_actors = more});
  }
  // What the other side of a socket learns by itself.
  static bool soon(const std::function<bool()>& holds, std::chrono::seconds limit = std::chrono::seconds(10)) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!holds() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return holds();
  }
  static internal::ObjectHandle number(int64_t value) { return put_bytes(std::as_bytes(std::span(&value, 1))); }

  FakeRaylet raylet_;
  std::unique_ptr<Process> driver_;
};

}  // namespace rayo::worker
