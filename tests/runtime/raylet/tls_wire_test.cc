// If this fails: a remote driver that reads nothing fills its raylet's memory, and is sent frames that its raylet believes
// lost.
#include "runtime/raylet/tls_wire.h"

#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>

#include "runtime/base/loop/blocking.h"
#include "runtime/raylet/transfer_link.h"
#include "runtime/rpc/token.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

TEST(TlsWire, ADriverThatReadsNothingIsCutOff) {
  base::run_in_loop([] {
    base::Loop& loop = *base::current_loop();
    base::WorkThreads thread("driver", 1);
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const rpc::Secret key = rpc::LinkKeys::of_data({}).tls_key(rpc::random_nonce());
    TransferLink driver(base::Fd(ends[1]), rpc::TlsPump::client(key), 10s);
    auto wire = make_tls_wire(std::make_unique<base::Stream>(loop, base::Fd(ends[0])), rpc::TlsPump::server(key));
    base::TaskGroup fibers;
    fibers.spawn("driver", [&] {
      proto::ToRaylet hello;
      hello.mutable_hello();
      const std::string bytes = encode_frame(1, hello, 0);
      auto said = base::run_on_thread(thread, [&] { return driver.write(std::as_bytes(std::span(bytes))); });
      EXPECT_TRUE(said.ok()) << said;
    });
    auto first = wire->read(loop.deadline(10s));
    ASSERT_TRUE(first.ok()) << first.status();

    proto::ToWorker large;
    large.mutable_object_value()->set_value(std::string(4 << 20, 'x'));
    int sent = 0;
    while (sent < 100 && wire->send(0, large, {})) ++sent;
    EXPECT_LT(sent, 100);
    EXPECT_GT(sent, 8);
    EXPECT_EQ(wire->read(loop.deadline(10s)).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(wire->send(0, {}, {}));
  });
}

}  // namespace
}  // namespace rayo::raylet
