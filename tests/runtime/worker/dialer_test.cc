// If these fail: who calls many processes of other nodes has a thread for each, one address that does not answer holds up
// the others, or a connection that comes after its owner's end is handed to nobody.
#include "runtime/worker/dialer.h"

#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "runtime/rpc/dial.h"
#include "tests/runtime/worker/two_engines.h"

namespace rayo::worker {
namespace {

// A listener whose queue is full swallows every further connection, as a machine behind a firewall does.
struct Listener {
  explicit Listener(int queue) : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(socket.get(), queue), 0);
    auto address = rpc::local_address(socket.get());
    EXPECT_TRUE(address.ok()) << address.status();
    if (address.ok()) own = *address;
  }
  // Nobody gets in any more.
  void fill() {
    for (int i = 0; i < 16; ++i) waiting.push_back(std::move(*rpc::start_connect(own)));
  }
  base::Fd socket;
  rpc::SocketAddress own;
  std::vector<base::Fd> waiting;
};

size_t threads() {
  auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

class DialerTest : public testing::Test {
 protected:
  void SetUp() override { process_.engine.start_service(); }
  void dial(const std::string& address, Dialer::Done done) {
    std::lock_guard hold(process_.engine.baton());
    dialer_->dial(address, first_, std::move(done));
  }
  TestProcess process_;
  std::unique_ptr<Dialer> dialer_ = std::make_unique<Dialer>(process_.engine);
  rpc::DataHeaderBytes first_{1, 2, 3};
};

TEST_F(DialerTest, AThousandConnectionsAreOneThreadsAndTheirHeadersArrive) {
  Listener good(1024), silent(0);
  silent.fill();
  const size_t before = threads();
  int came = 0;
  bool lost = false;
  for (int i = 0; i < 500; ++i) {
    dial(silent.own.text(), [&](base::StatusOr<base::Fd>) { lost = true; });
    dial(good.own.text(), [&](base::StatusOr<base::Fd> socket) {
      EXPECT_TRUE(socket.ok()) << socket.status();
      ++came;
    });
  }
  EXPECT_EQ(threads(), before + 1);
  {
    std::lock_guard hold(process_.engine.baton());
    EXPECT_TRUE(process_.engine.wait_until([&] { return came == 500; }, soon()));
    EXPECT_FALSE(lost) << "an address that does not answer is waited for, and nobody behind it";
  }
  base::Fd accepted(::accept4(good.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  rpc::DataHeaderBytes header;
  ASSERT_EQ(::recv(accepted.get(), header.data(), header.size(), MSG_WAITALL), static_cast<ssize_t>(header.size()));
  EXPECT_EQ(header, first_);
  dialer_->end();
  EXPECT_EQ(threads(), before);
}

TEST_F(DialerTest, WhoDoesNotAnswerInTimeOrRefusesIsTold) {
  Listener silent(0);
  silent.fill();
  base::Status refused, late, nonsense;
  {
    Listener gone(1);
    const std::string address = gone.own.text();
    gone.socket = {};
    dial(address, [&](base::StatusOr<base::Fd> socket) { refused = socket.status(); });
  }
  dial("nowhere", [&](base::StatusOr<base::Fd> socket) { nonsense = socket.status(); });
  dial(silent.own.text(), [&](base::StatusOr<base::Fd> socket) { late = socket.status(); });
  std::lock_guard hold(process_.engine.baton());
  EXPECT_TRUE(process_.engine.wait_until([&] { return !refused.ok() && !late.ok() && !nonsense.ok(); }, soon()));
  EXPECT_NE(base::message(refused).find("refused"), std::string::npos) << refused;
  EXPECT_NE(base::message(late).find("timed out"), std::string::npos) << late;
}

TEST_F(DialerTest, WhatComesAfterItsEndIsDropped) {
  Listener good(16);
  bool told = false;
  {
    std::lock_guard hold(process_.engine.baton());
    dialer_->dial(good.own.text(), first_, [&](base::StatusOr<base::Fd>) { told = true; });
    base::Fd accepted(::accept4(good.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char byte;
    EXPECT_EQ(::recv(accepted.get(), &byte, 1, 0), 1);  // it stands, and its answer waits for the baton
    dialer_.reset();
  }
  {
    std::lock_guard hold(process_.engine.baton());
    (void)process_.engine.wait_until([] { return false; }, base::system_clock().now());
  }
  EXPECT_FALSE(told);
}

// Where no thread can be had: stacks of more than all of the address space.
TEST_F(DialerTest, WithoutAThreadThePeerIsOutOfReachAndSignalsStayAsTheyWere) {
  pthread_attr_t usual, boundless;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_attr_init(&boundless), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&boundless, size_t{1} << 48), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&boundless), 0);
  base::Status told;
  dial("127.0.0.1:1", [&](base::StatusOr<base::Fd> socket) { told = socket.status(); });
  EXPECT_EQ(::pthread_setattr_default_np(&usual), 0);
  sigset_t blocked;
  EXPECT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
  EXPECT_EQ(sigismember(&blocked, SIGINT), 0);
  std::lock_guard hold(process_.engine.baton());
  EXPECT_TRUE(process_.engine.wait_until([&] { return !told.ok(); }, soon()));
  EXPECT_NE(base::message(told).find("cannot start the thread"), std::string::npos) << told;
}

}  // namespace
}  // namespace rayo::worker
