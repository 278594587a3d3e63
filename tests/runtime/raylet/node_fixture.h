// A node in this process, for node_*_test.cc.
#pragma once

#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <signal.h>
#include <sys/stat.h>

#include "runtime/base/loop/blocking.h"
#include "runtime/base/package_files.h"
#include "runtime/raylet/node.h"
#include "runtime/rpc/dial.h"
#include "tests/runtime/raylet/fake_head.h"
#include "tests/runtime/raylet/fake_worker.h"

namespace rayo::raylet {

using namespace std::chrono_literals;

// One node under a fake head, and a driver that speaks from a thread of its own.
class NodeTest : public testing::Test {
 protected:
  void run(const std::function<void()>& body) {
    base::run_in_loop([&] {
      start_node();
      if (!HasFatalFailure()) body();
      driver_.reset();
      if (node_) {
        node_->ask_to_stop("the test ends");
        node_->close();
      }
      node_.reset();
      head_->close();
      head_.reset();
    });
    std::filesystem::remove_all(folder_);  // holds this program as a package
  }

  void start_node() {
    loop_ = base::current_loop();
    char folder[] = "/tmp/rayo-node-test-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder));
    folder_ = folder;
    head_ = std::make_unique<FakeHead>(*loop_);
    head_->config = config_;
    ASSERT_TRUE(head_->start().ok());
    settings_.node_dir = folder_ / "node-1";
    ASSERT_TRUE(base::make_private_dir(settings_.node_dir).ok());
    settings_.token_file = folder_ / "token";
    ASSERT_TRUE(base::write_private_file(settings_.token_file, head_->token.text()).ok());
    settings_.head_addresses = {head_->address()};
    settings_.bind.host = "127.0.0.1";
    settings_.num_cpus = 2;
    settings_.num_gpus = 0;
    settings_.object_store_bytes = 16 << 20;
    NodeStart start;
    auto offer = measure_node(settings_);
    ASSERT_TRUE(offer.ok());
    start.offer = std::move(*offer);
    auto port = rpc::Port::open(*loop_, settings_.bind);
    ASSERT_TRUE(port.ok());
    start.port = std::move(*port);
    auto id = base::random_id<NodeId>();
    start.own = describe_node(settings_, id, *start.port);
    auto joined = join_cluster(*loop_, settings_, id);
    ASSERT_TRUE(joined.ok()) << joined.status();
    start.joined = std::move(*joined);
    node_ = std::make_unique<Node>(*loop_, settings_, std::move(start));
    auto registered = node_->open();
    ASSERT_TRUE(registered.ok()) << registered.status();
  }

  // ---- the driver, each step on its thread ----
  void connect_driver(const std::vector<std::string>& environment = {}) {
    base::run_on_thread(thread_, [&] {
      auto socket = base::connect_unix(base::NodeFiles{settings_.node_dir}.raylet_socket());
      ASSERT_TRUE(socket.ok());
      driver_ = std::make_unique<FakeProcess>(std::move(*socket), base::random_id<ProcessId>(), proto::DRIVER);
      auto reply = driver_->hello(environment);
      ASSERT_TRUE(reply && !reply->has_failure());
      base::Fd program(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
      struct stat info {};
      ASSERT_EQ(::fstat(program.get(), &info), 0);
      proto::ToRaylet offer;
      rpc::to_proto(*base::package_hash(program.get()), offer.mutable_offer_package()->mutable_package());
      offer.mutable_offer_package()->set_size_bytes(info.st_size);
      driver_->send(2, offer);
      auto wanted = driver_->receive();
      ASSERT_TRUE(wanted && wanted->message.has_package_reply());
      if (!wanted->message.package_reply().needed()) return;  // an earlier driver of this test brought it
      offer.mutable_offer_package()->set_with_file(true);
      driver_->send(3, offer, {program.get()});
      auto taken = driver_->receive();
      ASSERT_TRUE(taken && !taken->message.package_reply().needed() && !taken->message.package_reply().has_failure());
    });
  }
  // What the driver is sent until something fits; nullopt where the raylet closes before.
  template <class Fits>
  std::optional<FakeProcess::Received> await(Fits fits) {
    return base::run_on_thread(thread_, [&]() -> std::optional<FakeProcess::Received> {
      while (auto received = driver_->receive())
        if (fits(received->message)) return received;
      return std::nullopt;
    });
  }
  // Who creates an actor hears of it without asking again.
  ActorId create_actor(const std::string& class_name) {
    auto actor = base::random_id<ActorId>();
    proto::ToRaylet create;
    rpc::to_proto(actor, create.mutable_create_actor()->mutable_spec()->mutable_actor());
    create.mutable_create_actor()->mutable_spec()->set_class_name(class_name);
    driver_->send(10, create);
    return actor;
  }
  std::optional<proto::ActorInfo> await_state(proto::ActorState state) {
    auto received = await([state](const proto::ToWorker& message) {
      return (message.has_actor() && message.actor().state() == state) ||
             (message.has_actor_reply() && message.actor_reply().actor().state() == state);
    });
    if (!received) return std::nullopt;
    return received->message.has_actor() ? received->message.actor() : received->message.actor_reply().actor();
  }
  // All workers of the node's folder are gone.
  bool await_gone(pid_t pid, base::Duration limit) {
    base::TimePoint deadline = loop_->deadline(limit);
    while (::kill(pid, 0) == 0 && loop_->now() < deadline) base::sleep_for(5ms);
    return ::kill(pid, 0) != 0;
  }

  // ---- a connection to the node's port, on the driver's thread ----
  rpc::LinkKeys data_keys() const { return rpc::LinkKeys::of_data(head_->token.data_secret()); }
  base::Fd dial(const rpc::DataHeaderBytes& header) {
    auto address = base::parse_host_port(head_->registered.node().address());
    auto socket = rpc::dial(*address, loop_->deadline(5s));
    EXPECT_TRUE(socket.ok()) << socket.status();
    if (!socket.ok()) return {};
    EXPECT_EQ(::send(socket->get(), header.data(), header.size(), MSG_NOSIGNAL), static_cast<ssize_t>(header.size()));
    return std::move(*socket);
  }
  bool closed(const base::Fd& socket, base::Duration within) const {
    auto readable = rpc::wait_fd(socket.get(), POLLIN, loop_->deadline(within));
    char byte;
    return readable.ok() && *readable && ::recv(socket.get(), &byte, 1, 0) <= 0;
  }

  base::Loop* loop_ = nullptr;
  base::Path folder_;
  base::RayletSettings settings_;
  std::map<std::string, std::string> config_;  // of the head
  std::unique_ptr<FakeHead> head_;
  std::unique_ptr<Node> node_;
  base::WorkThreads thread_{"driver", 1};
  std::unique_ptr<FakeProcess> driver_;
};

}  // namespace rayo::raylet
