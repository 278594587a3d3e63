// If this fails: a driver cannot start actors on its node, a death is not explained to its callers, or
// processes stay behind.
#include "runtime/raylet/node.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include "runtime/base/loop/blocking.h"
#include "runtime/base/open_files.h"
#include "runtime/base/package_files.h"
#include "runtime/base/text.h"
#include "runtime/raylet/package_store.h"
#include "runtime/rpc/data_header.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/grpc/client.h"
#include "runtime/rpc/grpc/methods.h"
#include "runtime/rpc/proto_ids.h"
#include "runtime/rpc/ring.h"
#include "tests/runtime/raylet/fake_head.h"
#include "tests/runtime/raylet/fake_worker.h"

namespace rayo::raylet {
namespace {

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

TEST_F(NodeTest, AnActorComesUpInAForkedWorkerAndItsDeathIsExplained) {
  run([this] {
    connect_driver({"ASAN_OPTIONS=handle_segv=0"});  // where the test has ASan: the signal ends it
    create_actor("Counter");
    // Who creates it has a way to it before it is alive, and need not ask.
    auto link = await([](const proto::ToWorker& message) { return message.has_peer_link(); });
    ASSERT_TRUE(link);
    ASSERT_TRUE(link->message.peer_link().ring());
    ASSERT_EQ(link->fds.size(), 4u);
    auto alive = await_state(proto::ALIVE);
    ASSERT_TRUE(alive);
    pid_t pid = static_cast<pid_t>(alive->pid());
    ASSERT_GT(pid, 0);
    EXPECT_EQ(rpc::from_proto<ProcessId>(link->message.peer_link().peer().process()),
              rpc::from_proto<ProcessId>(alive->address().process()));

    proto::ToRaylet connect;
    *connect.mutable_connect()->mutable_peer() = alive->address();
    driver_->send(20, connect);
    auto again = await([](const proto::ToWorker& message) { return message.has_peer_link(); });
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->message.peer_link().has_failure()) << again->message.peer_link().failure().text();
    EXPECT_FALSE(again->message.peer_link().ring()) << "one way is enough";
    auto ring = rpc::RingMemory::map(std::move(link->fds[0]));
    ASSERT_TRUE(ring.ok());

    base::TimePoint killed = loop_->now();
    ::kill(pid, SIGSEGV);
    auto gone = await([](const proto::ToWorker& message) { return message.has_peer_gone(); });
    auto took = loop_->now() - killed;
    ASSERT_TRUE(gone);
    EXPECT_LT(took, 1s);
    RecordProperty("death_known_us", static_cast<int>(took / 1us));
    EXPECT_TRUE(ring->closed());
    const auto& death = gone->message.peer_gone().death();
    EXPECT_EQ(death.kind(), proto::SIGNAL);
    EXPECT_EQ(death.signal(), SIGSEGV);
    EXPECT_EQ(death.pid(), pid);
    EXPECT_NE(death.text().find("actor Counter"), std::string::npos) << death.text();
    ASSERT_EQ(death.last_log_lines_size(), 1);
    EXPECT_EQ(death.last_log_lines(0), "hosting Counter");
    auto dead = await_state(proto::DEAD);
    ASSERT_TRUE(dead);
    EXPECT_EQ(dead->death().signal(), SIGSEGV);
  });
}

TEST_F(NodeTest, WhatAWorkerPrintsReachesItsDriver) {
  run([this] {
    connect_driver();
    create_actor("Printer");
    auto lines = await([](const proto::ToWorker& message) { return message.has_log_lines(); });
    ASSERT_TRUE(lines);
    EXPECT_EQ(lines->message.log_lines().source(), "Printer");
    ASSERT_EQ(lines->message.log_lines().lines_size(), 1);
    EXPECT_EQ(lines->message.log_lines().lines(0), "hosting Printer");
  });
}

TEST_F(NodeTest, AKilledActorIsDeadOnlyWhenItIsReaped) {
  run([this] {
    connect_driver({"FAKE=exec"});  // no zygote: each worker is exec'd
    auto actor = create_actor("Counter");
    auto alive = await_state(proto::ALIVE);
    ASSERT_TRUE(alive);
    proto::ToRaylet kill_it;
    rpc::to_proto(actor, kill_it.mutable_kill_actor()->mutable_actor());
    driver_->send(30, kill_it);
    auto dead = await_state(proto::DEAD);
    ASSERT_TRUE(dead);
    EXPECT_EQ(dead->death().kind(), proto::KILLED);
    EXPECT_NE(::kill(static_cast<pid_t>(alive->pid()), 0), 0);
  });
}

TEST_F(NodeTest, AnActorStartsBeforeItIsWrittenDown) {
  run([this] {
    connect_driver();
    head_->creations.reset();
    create_actor("Counter");
    auto alive = await_state(proto::ALIVE);
    ASSERT_TRUE(alive);
    EXPECT_GT(alive->pid(), 0);
    auto of_an_actor = [](const proto::NodeUp& up) { return up.has_actor(); };
    EXPECT_TRUE(std::ranges::none_of(head_->up, of_an_actor)) << "the head would end what it does not know";
    head_->creations.set();
    auto told = head_->await(of_an_actor);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->actor().state(), proto::ALIVE);
    EXPECT_EQ(told->actor().pid(), alive->pid());
  });
}

TEST_F(NodeTest, AnActorThatStartedAndIsRefusedEnds) {
  run([this] {
    connect_driver();
    head_->creations.reset();
    head_->refuse = true;
    create_actor("Counter");
    auto alive = await_state(proto::ALIVE);
    ASSERT_TRUE(alive);
    head_->creations.set();
    auto refused = await([](const proto::ToWorker& message) { return message.has_actor_reply(); });
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->message.actor_reply().failure().text(), "refused");
    EXPECT_TRUE(await_gone(static_cast<pid_t>(alive->pid()), 5s));
  });
}

// It could run calls, and then be told that it never was.
TEST_F(NodeTest, NoActorBeginsBeforeAHeadHasAnsweredThatMayRefuseIt) {
  run([this] {
    connect_driver();
    head_->read_only = head_->refuse = true;
    ASSERT_TRUE(head_->await_beats());
    create_actor("Counter");
    auto answer =
        await([](const proto::ToWorker& message) { return message.has_actor_reply() || message.has_actor(); });
    ASSERT_TRUE(answer && answer->message.has_actor_reply());
    EXPECT_EQ(answer->message.actor_reply().failure().text(), "refused");
    EXPECT_FALSE(head_->started);
    head_->read_only = head_->refuse = false;
    ASSERT_TRUE(head_->await_beats());
    create_actor("Counter");
    ASSERT_TRUE(await_state(proto::ALIVE));
    EXPECT_TRUE(head_->started) << "and as before when there is room again";
  });
}

// It may end itself for good before the head has written it down: nobody would say so again.
TEST_F(NodeTest, AnActorThatIsDeadWhenItIsWrittenDownIsToldSo) {
  run([this] {
    connect_driver();
    head_->creations.reset();
    auto actor = create_actor("Counter");
    ASSERT_TRUE(await_state(proto::ALIVE));
    head_->bury(actor);
    head_->creations.set();
    auto answer = await([](const proto::ToWorker& message) { return message.has_actor_reply(); });
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->message.actor_reply().actor().state(), proto::DEAD);
  });
}

// The head counts its creator as a holder from when it hears of the actor.
TEST_F(NodeTest, AHandleThatIsDroppedBeforeItsActorIsWrittenDownIsToldThen) {
  run([this] {
    connect_driver();
    head_->creations.reset();
    auto actor = create_actor("Counter");
    proto::ToRaylet refs;
    rpc::to_proto(actor, refs.mutable_hold_refs()->add_actors_held());
    driver_->send(0, refs);
    ASSERT_TRUE(await_state(proto::ALIVE));
    refs.Clear();
    rpc::to_proto(actor, refs.mutable_hold_refs()->add_actors_dropped());
    driver_->send(0, refs);
    auto of_handles = [](const proto::NodeUp& up) {
      return up.has_actor_handles() && up.actor_handles().dropped_size();
    };
    ASSERT_TRUE(head_->await(of_handles)) << "told at once, of an actor that the head may not know yet";
    head_->creations.set();
    EXPECT_TRUE(head_->await(of_handles)) << "and again when it does";
  });
}

// Else the dead process watches the actor for as long as the node lives, and the head tells of it for nobody.
TEST_F(NodeTest, WhatAProcessThatHasGoneStillAskedIsNotAsked) {
  run([this] {
    connect_driver();
    head_->creations.reset();
    create_actor("Counter");  // the head takes its time, and what is asked behind it waits
    ASSERT_TRUE(await_state(proto::ALIVE));
    const ActorId watched{4, 4};
    proto::ToRaylet watch;
    rpc::to_proto(watched, watch.mutable_watch_actor()->mutable_actor());
    driver_->send(11, watch);
    const ProcessId gone = driver_->id;
    base::run_on_thread(thread_, [&] { driver_.reset(); });
    ASSERT_TRUE(head_->await([&](const proto::NodeUp& up) {
      return up.has_worker_died() && rpc::from_proto<ProcessId>(up.worker_died().process()) == gone;
    }));
    head_->creations.set();
    connect_driver();
    driver_->send(11, watch);
    ASSERT_TRUE(await([](const proto::ToWorker& message) { return message.has_actor_reply(); }));
    proto::ToRaylet unwatch;
    rpc::to_proto(watched, unwatch.mutable_unwatch_actor()->mutable_actor());
    driver_->send(12, unwatch);
    for (auto limit = loop_->deadline(10s); !head_->unwatched.contains(watched) && loop_->now() < limit;)
      base::sleep_for(5ms);
    EXPECT_TRUE(head_->unwatched.contains(watched)) << "its last watcher has gone";
  });
}

TEST_F(NodeTest, AHandleIsConfirmedWhenTheHeadKnowsOfIt) {
  run([this] {
    connect_driver();
    head_->marks.reset();
    const proto::Id actor = rpc::to_proto(ActorId{4, 4});
    proto::ToRaylet refs;
    *refs.mutable_hold_refs()->add_actors_held() = actor;
    refs.mutable_hold_refs()->set_confirm_actors(true);
    driver_->send(50, refs);
    auto marked = head_->await([](const proto::NodeUp& up) { return up.has_actor_handles() && up.request() != 0; });
    ASSERT_TRUE(marked);
    EXPECT_EQ(marked->actor_handles().held_size(), 1);
    proto::ToRaylet others;
    others.mutable_hold_refs();
    driver_->send(51, others);  // of objects alone
    auto first = await([](const proto::ToWorker& message) { return message.has_done(); });
    ASSERT_TRUE(first);
    EXPECT_EQ(first->call_id, 51u) << "the head has not answered yet";
    head_->marks.set();
    auto second = await([](const proto::ToWorker& message) { return message.has_done(); });
    ASSERT_TRUE(second);
    EXPECT_EQ(second->call_id, 50u);
    driver_->send(52, refs);  // what it knows is confirmed at once
    EXPECT_TRUE(await([](const proto::ToWorker& message) { return message.has_done(); }));
  });
}

// Whoever put it is gone by the time that somebody reads it.
TEST_F(NodeTest, AHandleInsideAValueIsHeldAsLongAsTheValueIsKept) {
  run([this] {
    connect_driver();
    const proto::Id actor = rpc::to_proto(ActorId{4, 4});
    const auto node = rpc::from_proto<NodeId>(head_->registered.node().node());
    const proto::ObjectId object = rpc::to_proto(ObjectId{base::short_id(node), base::short_id(driver_->id), 1});
    proto::ToRaylet message;
    *message.mutable_publish_object()->mutable_object() = object;
    message.mutable_publish_object()->set_value("a value");
    *message.mutable_publish_object()->add_inner_actors() = actor;
    driver_->send(0, message);
    message.Clear();
    *message.mutable_hold_refs()->add_actors_held() = actor;
    driver_->send(0, message);
    message.Clear();
    *message.mutable_hold_refs()->add_actors_dropped() = actor;
    message.mutable_hold_refs()->set_confirm_actors(true);
    driver_->send(50, message);
    ASSERT_TRUE(await([](const proto::ToWorker& answer) { return answer.has_done(); }));
    const auto of_the_end = [](const proto::NodeUp& up) { return up.actor_handles().dropped_size() != 0; };
    EXPECT_TRUE(std::ranges::none_of(head_->up, of_the_end)) << "the head would end it";
    message.Clear();
    *message.mutable_hold_refs()->add_dropped() = object;
    driver_->send(0, message);
    auto dropped = head_->await(of_the_end);
    ASSERT_TRUE(dropped) << "nobody can read the value any more";
    EXPECT_EQ(rpc::from_proto<ActorId>(dropped->actor_handles().dropped(0)), (ActorId{4, 4}));
  });
}

TEST_F(NodeTest, WhoWatchesAgainWhileTheHeadIsToldThatNobodyDoesIsNotForgotten) {
  run([this] {
    connect_driver();
    const ActorId actor{4, 4};
    proto::ToRaylet watch, unwatch;
    rpc::to_proto(actor, watch.mutable_watch_actor()->mutable_actor());
    rpc::to_proto(actor, unwatch.mutable_unwatch_actor()->mutable_actor());
    const auto answered = [](const proto::ToWorker& answer) { return answer.has_actor_reply(); };
    driver_->send(50, watch);
    ASSERT_TRUE(await(answered));
    head_->unwatches.reset();
    driver_->send(51, unwatch);
    ASSERT_TRUE(head_->await_watches(actor, 1)) << "only the first one yet";
    driver_->send(52, watch);
    ASSERT_TRUE(await(answered));
    EXPECT_TRUE(head_->watches(actor));
    head_->unwatches.set();  // it is heard behind the watch that came later
    ASSERT_TRUE(head_->await_watches(actor, 3)) << "nobody says again that it is watched";
    EXPECT_TRUE(head_->watches(actor));
  });
}

// What went into a stream that broke may be lost: the head ends and drops what is not told here.
TEST_F(NodeTest, AStreamThatIsOpenedAgainTellsWhichJobsAndHandlesAreStillHere) {
  run([this] {
    connect_driver();
    proto::ToRaylet refs;
    rpc::to_proto(ActorId{4, 4}, refs.mutable_hold_refs()->add_actors_held());
    driver_->send(0, refs);
    ASSERT_TRUE(head_->await([](const proto::NodeUp& up) { return up.has_actor_handles(); }));
    auto first = head_->await([](const proto::NodeUp& up) { return up.has_job(); });
    ASSERT_TRUE(first);
    auto of_still_here = [](const proto::NodeUp& up) { return up.has_still_here(); };
    head_->forget = true;
    auto told = head_->await(of_still_here);
    ASSERT_TRUE(told);
    ASSERT_EQ(told->still_here().jobs_size(), 1);
    EXPECT_EQ(rpc::from_proto<JobId>(told->still_here().jobs(0)), rpc::from_proto<JobId>(first->job().job()));
    ASSERT_EQ(told->still_here().actors_held_size(), 1);
    EXPECT_EQ(rpc::from_proto<ActorId>(told->still_here().actors_held(0)), (ActorId{4, 4}));
    EXPECT_NE(told->request(), 0u) << "who waits for the head to know of handles waits for this";
    base::run_on_thread(thread_, [&] { driver_.reset(); });
    ASSERT_TRUE(head_->await([](const proto::NodeUp& up) { return up.has_job() && up.job().ended(); }));
    head_->forget = true;
    told = head_->await(of_still_here);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->still_here().jobs_size(), 0);
    EXPECT_EQ(told->still_here().actors_held_size(), 0);
  });
}

TEST_F(NodeTest, AConstructorThatThrowsIsTold) {
  run([this] {
    connect_driver();
    create_actor("Throws");
    auto dead = await_state(proto::DEAD);
    ASSERT_TRUE(dead);
    EXPECT_EQ(dead->failure().text(), "it threw");
  });
}

TEST_F(NodeTest, AProgramThatNeverReachesInitIsAStartFailureWithItsStderr) {
  run([this] {
    connect_driver({"FAKE=exit"});
    create_actor("Counter");
    auto dead = await_state(proto::DEAD);
    ASSERT_TRUE(dead);
    EXPECT_EQ(dead->failure().death().kind(), proto::START_FAILED);
    EXPECT_EQ(dead->failure().death().exit_code(), 3);
    ASSERT_EQ(dead->failure().death().last_log_lines_size(), 1);
    EXPECT_EQ(dead->failure().death().last_log_lines(0), "no such library");
  });
}

TEST_F(NodeTest, TheEndOfADriverLeavesNoWorker) {
  run([this] {
    connect_driver();
    create_actor("Counter");
    auto alive = await_state(proto::ALIVE);
    ASSERT_TRUE(alive);
    ASSERT_GT(alive->pid(), 0) << "its zygote had not told yet";
    base::run_on_thread(thread_, [&] { driver_.reset(); });
    EXPECT_TRUE(await_gone(static_cast<pid_t>(alive->pid()), 5s));
    auto ended = head_->await([](const proto::NodeUp& up) { return up.has_job() && up.job().ended(); });
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->job().death().kind(), proto::DRIVER_GONE);
  });
}

// Else `status` shows no driver until something else happens on its node.
TEST_F(NodeTest, ADriverIsCountedWhenItComes) {
  run([this] {
    connect_driver();
    EXPECT_TRUE(
        head_->await([](const proto::NodeUp& up) { return up.has_resources() && up.resources().drivers() == 1; }));
  });
}

TEST_F(NodeTest, ALeaseIsGrantedHereAndItsCpuComesBack) {
  run([this] {
    connect_driver();
    proto::ToRaylet request;
    request.mutable_request_leases()->set_shape(7);
    request.mutable_request_leases()->set_count(1);
    request.mutable_request_leases()->set_what("half");
    (*request.mutable_request_leases()->mutable_demand()->mutable_resources()->mutable_units())["cpu"] = 10'000;
    driver_->send(0, request);
    auto granted = await([](const proto::ToWorker& message) { return message.has_lease_granted(); });
    ASSERT_TRUE(granted);
    const auto& lease = granted->message.lease_granted();
    ASSERT_FALSE(lease.has_failure()) << lease.failure().text();
    EXPECT_EQ(lease.shape(), 7u);
    auto report = [](double cpus) {
      return [cpus](const proto::NodeUp& up) {
        return up.has_resources() && up.resources().free().units().count("cpu") &&
               up.resources().free().units().at("cpu") == cpus * 10'000;
      };
    };
    EXPECT_TRUE(head_->await(report(1)));
    proto::ToRaylet back;
    *back.mutable_return_lease()->mutable_lease() = lease.lease();
    driver_->send(0, back);
    EXPECT_TRUE(head_->await(report(2)));
  });
}

// The answer of the head to a driver's ask may be lost, with its stream or because the ask was withdrawn: that CPU was gone until
// the driver's end.
TEST_F(NodeTest, ALeaseOfThisNodesOwnThatNobodyHeardOfIsEnded) {
  config_["leases.confirm_each"] = "300ms";
  run([this] {
    connect_driver();
    auto job = head_->await([](const proto::NodeUp& up) { return up.has_job(); });
    ASSERT_TRUE(job);
    proto::NodeDown down;
    down.set_request(77);
    auto& grant = *down.mutable_grant();
    (*grant.mutable_demand()->mutable_resources()->mutable_units())["cpu"] = 10'000;
    grant.set_count(1);
    *grant.mutable_job() = job->job().job();
    *grant.mutable_requester() = rpc::to_proto(driver_->id);
    *grant.mutable_from_node() = head_->registered.node().node();
    head_->send(down);
    auto granted = head_->await([](const proto::NodeUp& up) { return up.has_grant_reply(); });
    ASSERT_TRUE(granted);
    ASSERT_EQ(granted->grant_reply().leases_size(), 1);
    ASSERT_FALSE(granted->grant_reply().leases(0).has_failure());
    EXPECT_TRUE(head_->await([](const proto::NodeUp& up) {
      return up.has_resources() && up.resources().applied_request() == 77 &&
             up.resources().free().units().at("cpu") == 20'000;
    }));
  });
}

// The lease is granted and ended before the fiber that looks for its worker has had a turn: that fiber once took the raylet along.
TEST_F(NodeTest, ADriverThatAsksForALeaseAndGoesEndsNoRaylet) {
  run([this] {
    for (int i = 0; i < 20; ++i) {
      connect_driver();
      proto::ToRaylet request;
      request.mutable_request_leases()->set_shape(7);
      request.mutable_request_leases()->set_count(1);
      (*request.mutable_request_leases()->mutable_demand()->mutable_resources()->mutable_units())["cpu"] = 10'000;
      driver_->send(0, request);
      base::run_on_thread(thread_, [&] { driver_.reset(); });
    }
    connect_driver();
    create_actor("Counter");
    EXPECT_TRUE(await_state(proto::ALIVE));
  });
}

TEST_F(NodeTest, SizesThatCannotBeAreRefusedAndTheNodeGoesOn) {
  run([this] {
    connect_driver();
    const uint64_t own = base::short_id(rpc::from_proto<NodeId>(head_->registered.node().node()));
    uint64_t counter = 0;
    auto create = [&](int64_t size) {
      proto::ToRaylet message;
      const ObjectId object{own, base::short_id(driver_->id), ++counter};
      *message.mutable_create_object()->mutable_object() = rpc::to_proto(object);
      message.mutable_create_object()->set_size_bytes(size);
      driver_->send(20, message);
      auto answer = await([](const proto::ToWorker& reply) { return reply.has_object_space(); });
      return answer ? answer->message.object_space() : proto::ObjectSpace();
    };
    const int64_t first = create(4096).offset_bytes();
    for (int64_t size : {int64_t{-5}, std::numeric_limits<int64_t>::max()})
      EXPECT_EQ(create(size).failure().kind(), proto::OUT_OF_MEMORY_ERROR) << size;
    auto next = create(4096);
    EXPECT_FALSE(next.has_failure());
    EXPECT_EQ(next.offset_bytes(), first + 4096);
  });
}

TEST_F(NodeTest, ADriverOfAnotherVersionIsToldSo) {
  run([this] {
    base::run_on_thread(thread_, [&] {
      auto socket = base::connect_unix(base::NodeFiles{settings_.node_dir}.raylet_socket());
      ASSERT_TRUE(socket.ok());
      FakeProcess other(std::move(*socket), base::random_id<ProcessId>(), proto::DRIVER);
      proto::ToRaylet hello;
      hello.mutable_hello()->set_version("9.9.9");
      hello.mutable_hello()->set_kind(proto::DRIVER);
      other.send(1, hello);
      auto reply = other.receive();
      ASSERT_TRUE(reply);
      EXPECT_NE(reply->message.hello_reply().failure().text().find("9.9.9"), std::string::npos);
      EXPECT_FALSE(other.receive());
    });
  });
}

// Else a program that is started twice at once on a machine without a node runs neither time, and what the one raylet writes to
// may be what it has freed for the other.
TEST_F(NodeTest, TwoDriversBringOneProgramAtTheSameTime) {
  run([this] {
    base::run_on_thread(thread_, [&] {
      const base::Path raylet = base::NodeFiles{settings_.node_dir}.raylet_socket();
      const std::string halves[] = {std::string(1 << 20, 'a'), std::string(1 << 20, 'b')};
      const base::Path file = folder_ / "program";
      ASSERT_TRUE(base::write_private_file(file, halves[0] + halves[1]).ok());
      const base::Fd program(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
      const PackageId package = *base::package_hash(program.get());
      std::vector<std::unique_ptr<FakeProcess>> drivers;
      for (int i = 0; i < 3; ++i) {
        auto socket = base::connect_unix(raylet);
        ASSERT_TRUE(socket.ok());
        auto driver = std::make_unique<FakeProcess>(std::move(*socket), base::random_id<ProcessId>(), proto::DRIVER);
        ASSERT_TRUE(driver->hello());
        drivers.push_back(std::move(driver));
      }
      auto bring = [&](FakeProcess& driver, int half) {
        proto::ToRaylet chunk;
        rpc::to_proto(package, chunk.mutable_package_chunk()->mutable_package());
        chunk.mutable_package_chunk()->set_offset(half << 20);
        chunk.mutable_package_chunk()->set_data(halves[half]);
        chunk.mutable_package_chunk()->set_last(half == 1);
        driver.send(static_cast<uint64_t>(half) + 3, chunk);
        auto reply = driver.receive();
        ASSERT_TRUE(reply && reply->message.has_package_reply());
        EXPECT_FALSE(reply->message.package_reply().has_failure()) << reply->message.package_reply().failure().text();
        EXPECT_EQ(reply->message.package_reply().needed(), half == 0);
      };
      for (auto& driver : drivers) bring(*driver, 0);
      drivers.pop_back();  // one goes before it is done
      for (auto& driver : drivers) bring(*driver, 1);
    });
    const base::Path packages = settings_.node_dir / "packages";
    const auto left = [&] {
      return std::distance(std::filesystem::directory_iterator(packages), std::filesystem::directory_iterator());
    };
    for (auto limit = loop_->deadline(10s); left() != 1 && loop_->now() < limit;) base::sleep_for(5ms);
    EXPECT_EQ(left(), 1) << "of the driver that went something stays";
  });
}

// Else any node could make callers give up calls to healthy processes of another.
TEST_F(NodeTest, ADeathIsBelievedOnTheWordOfTheProcessesOwnNode) {
  run([this] {
    auto home = base::random_id<NodeId>(), liar = base::random_id<NodeId>();
    auto callee = base::random_id<ProcessId>();
    proto::NodeDown joined;
    rpc::to_proto(home, joined.mutable_node()->mutable_node());
    joined.mutable_node()->set_state("alive");
    joined.mutable_node()->set_address("127.0.0.1:1");
    head_->send(joined);
    connect_driver();
    auto link = [&]() {
      base::run_on_thread(thread_, [&] {
        proto::ToRaylet connect;
        rpc::to_proto(home, connect.mutable_connect()->mutable_peer()->mutable_node());
        rpc::to_proto(callee, connect.mutable_connect()->mutable_peer()->mutable_process());
        driver_->send(20, connect);
      });
      auto answer = await([](const proto::ToWorker& message) { return message.has_peer_link(); });
      return answer && answer->message.peer_link().peer().host_port() == "127.0.0.1:1";
    };
    for (auto limit = loop_->deadline(10s); !link() && loop_->now() < limit;) base::sleep_for(5ms);  // the news comes
    for (NodeId from : {liar, home}) {
      proto::NodeDown down;
      rpc::to_proto(from, down.mutable_worker_died()->mutable_node());
      rpc::to_proto(callee, down.mutable_worker_died()->mutable_process());
      down.mutable_worker_died()->mutable_death()->set_text(from == home ? "signal 9" : "a lie");
      head_->send(down);
    }
    auto told = await([](const proto::ToWorker& message) { return message.has_peer_gone(); });
    ASSERT_TRUE(told);
    EXPECT_EQ(told->message.peer_gone().death().text(), "signal 9");
  });
}

// Else 64 bytes that were seen on their way once are enough, sent again and again, to keep a node from its objects.
TEST_F(NodeTest, ADataHeaderIsTakenOnce) {
  run([this] {
    connect_driver();
    base::run_on_thread(thread_, [&] {
      for (auto kind : {rpc::LinkKind::kData, rpc::LinkKind::kCall, rpc::LinkKind::kDriver}) {
        auto header = rpc::encode(rpc::make_data_header(kind, true, rpc::id_bytes(driver_->id), data_keys()));
        base::Fd first = dial(header), again = dial(header);
        EXPECT_TRUE(closed(again, 1s)) << "kind " << static_cast<int>(kind);
        EXPECT_FALSE(closed(first, 0s)) << "kind " << static_cast<int>(kind);
      }
    });
  });
}

TEST_F(NodeTest, AHandshakeThatDripsHoldsNoTransfer) {
  run([this] {
    base::run_on_thread(thread_, [&] {
      base::Fd slow = dial(rpc::encode(rpc::make_data_header(rpc::LinkKind::kData, true, {}, data_keys())));
      const char record[] = {0x16, 3, 1, 0x40, 0};  // of TLS, 16 KiB long, which never comes whole
      ASSERT_EQ(::send(slow.get(), record, sizeof record, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof record));
      const auto end = loop_->deadline(10 * rpc::kHandshakeLimit);
      bool cut = false;
      while (!(cut = closed(slow, 100ms)) && loop_->now() < end) (void)::send(slow.get(), "x", 1, MSG_NOSIGNAL);
      EXPECT_TRUE(cut);
    });
  });
}

// Else a raylet that has as many files open as it may ends the connections of processes that did nothing, and a driver's
// job with its own.
TEST_F(NodeTest, WhereNoDescriptorIsLeftOneLinkIsRefusedAndNobodyCutOff) {
  run([this] {
    connect_driver();
    base::run_on_thread(thread_, [&] {
      auto socket = base::connect_unix(base::NodeFiles{settings_.node_dir}.raylet_socket());
      ASSERT_TRUE(socket.ok());
      FakeProcess other(std::move(*socket), base::random_id<ProcessId>(), proto::DRIVER);
      ASSERT_TRUE(other.hello());
      proto::ToRaylet connect;
      rpc::to_proto(other.id, connect.mutable_connect()->mutable_peer()->mutable_process());
      const rlimit before = base::open_files();
      bool linked = false;
      for (rlim_t room = 0; !linked; ++room) {
        const int lowest = ::dup(driver_->fd());
        ::close(lowest);
        rlimit tight = before;
        tight.rlim_cur = static_cast<rlim_t>(lowest) + room;  // and what is free below
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
        driver_->send(20, connect);
        auto came = rpc::wait_fd(driver_->fd(), POLLIN, loop_->deadline(10s));
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
        ASSERT_TRUE(came.ok() && *came);
        auto answer = driver_->receive();
        ASSERT_TRUE(answer) << "the raylet closed the driver's connection with room for " << room;
        ASSERT_TRUE(answer->message.has_peer_link());
        linked = answer->message.peer_link().ring();
        const auto& failure = answer->message.peer_link().failure();
        EXPECT_EQ(failure.text().find(base::cat(tight.rlim_cur)) != std::string::npos, !linked) << failure.text();
        EXPECT_EQ(failure.next_step().empty(), linked);
      }
      auto link = other.receive();
      ASSERT_TRUE(link && link->message.peer_link().ring()) << "the other side was cut off";
      EXPECT_EQ(link->fds.size(), 4u);
    });
  });
}

// Else one node could hold, publish and drop objects for another, whose holds then mean nothing.
TEST_F(NodeTest, ANodeIsAnsweredInItsOwnNameAlone) {
  run([this] {
    auto node = base::random_id<NodeId>(), honest = base::random_id<NodeId>();
    auto identity = head_->identity_of(node);
    ASSERT_TRUE(identity.ok()) << identity.status();
    auto channel = rpc::Channel::tls({.addresses = {head_->registered.node().address()},
                                      .identity = *identity,
                                      .expect = {rpc::Role::kNode, head_->cluster, {}}});
    auto refused = [&](const auto& method, auto request) {
      rpc::to_proto(honest, request.mutable_node());
      auto reply = channel->call(method, request, loop_->deadline(5s));
      EXPECT_EQ(reply.status().code(), absl::StatusCode::kPermissionDenied) << reply.status();
      EXPECT_NE(base::message(reply.status()).find(honest.hex()), std::string::npos) << reply.status();
    };
    refused(rpc::raylet::kAskObject, proto::AskObjectRequest());
    refused(rpc::raylet::kHoldObjects, proto::HoldObjectsRequest());
    refused(rpc::raylet::kDropCopies, proto::DropCopiesRequest());
    proto::HoldObjectsRequest hold;
    rpc::to_proto(node, hold.mutable_node());
    hold.set_number(1);
    auto held = channel->call(rpc::raylet::kHoldObjects, hold, loop_->deadline(5s));
    EXPECT_TRUE(held.ok() && !held->has_failure()) << held.status();
  });
}

}  // namespace
}  // namespace rayo::raylet
