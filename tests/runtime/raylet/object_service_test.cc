// What a user loses if these fail: get() fails although the value can be had a moment later, or what nobody waits for any more
// is kept for good.
#include "runtime/raylet/object_service.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/raylet/transfer.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

// The rest of a raylet: which nodes it knows, and what it was asked to send.
class FakeWires : public ObjectWires {
 public:
  struct Ask {
    NodeId home;
    proto::AskObjectRequest request;
    std::function<void(base::StatusOr<proto::AskObjectReply>)> done;
  };

  void send(ProcessId, uint64_t call_id, const proto::ToWorker& message) override { answers[call_id] = message; }
  NodeId own_node() const override { return own; }
  NodeId node_of(uint64_t short_node) const override {
    auto found = std::ranges::find_if(living, [&](NodeId node) { return base::short_id(node) == short_node; });
    return found == living.end() ? NodeId() : *found;
  }
  const proto::DeathRecord* death_of(uint64_t short_node) const override {
    auto found = dead.find(short_node);
    return found == dead.end() ? nullptr : &found->second;
  }
  std::string data_address_of(NodeId) const override { return "127.0.0.1:1"; }
  bool same_machine(NodeId) const override { return true; }
  void ask_object(NodeId home, const proto::AskObjectRequest& request,
                  std::function<void(base::StatusOr<proto::AskObjectReply>)> done) override {
    asks.push_back({home, request, std::move(done)});
  }
  void hold_objects(NodeId home, const proto::HoldObjectsRequest& request,
                    std::function<void(proto::HoldObjectsReply)> done) override {
    holds.emplace_back(home, request);
    done({});
  }
  void drop_copies(NodeId holder, const proto::DropCopiesRequest& request,
                   std::function<void(bool answered)> done) override {
    drops.emplace_back(holder, request);
    done(link_holds);
  }

  const NodeId own = base::random_id<NodeId>();
  std::vector<NodeId> living;
  std::map<uint64_t, proto::DeathRecord> dead;
  std::vector<Ask> asks;
  std::vector<std::pair<NodeId, proto::HoldObjectsRequest>> holds;
  std::vector<std::pair<NodeId, proto::DropCopiesRequest>> drops;
  bool link_holds = true;
  std::map<uint64_t, proto::ToWorker> answers;  // by call id
};

class ObjectServiceTest : public testing::Test {
 protected:
  void run(const std::function<void()>& body) {
    base::run_in_loop([&] {
      loop_ = base::current_loop();
      transfer_ = std::make_unique<Transfer>(*loop_, rpc::Secret());
      auto made = make_object_service(wires_, *loop_, *transfer_, 1 << 20);
      ASSERT_TRUE(made.ok()) << made.status();
      service_ = std::move(*made);
      service_->process_joined(process_);
      body();
      transfer_.reset();
      service_.reset();
    });
  }
  bool soon(const std::function<bool()>& holds) {
    const base::TimePoint until = loop_->deadline(10s);
    while (!holds() && loop_->now() < until) base::sleep_for(5ms);
    return holds();
  }
  void resolve(uint64_t call_id, const ObjectId& object) {
    proto::ResolveObject request;
    *request.mutable_object() = rpc::to_proto(object);
    request.set_fetch(true);
    service_->resolve(process_, call_id, request);
  }
  static base::StatusOr<proto::AskObjectReply> value(const std::string& bytes) {
    proto::AskObjectReply reply;
    reply.set_value(bytes);
    return reply;
  }
  ObjectId minted_at(const NodeId& node) const { return {base::short_id(node), 70, 1}; }
  const proto::ObjectValue& answer(uint64_t call_id) { return wires_.answers[call_id].object_value(); }

  base::Loop* loop_ = nullptr;
  FakeWires wires_;
  std::unique_ptr<Transfer> transfer_;
  std::unique_ptr<ObjectService> service_;
  const ProcessId process_ = base::random_id<ProcessId>();
  const NodeId other_ = base::random_id<NodeId>();
};

// A node joined while our stream to the head was broken: its references come before the news of it.
TEST_F(ObjectServiceTest, ANodeThatIsNotKnownYetIsAskedWhenItIs) {
  run([this] {
    const ObjectId object = minted_at(other_);
    proto::HoldRefs hold;
    *hold.add_held() = rpc::to_proto(object);
    service_->hold_refs(process_, 0, hold);
    resolve(5, object);
    EXPECT_TRUE(wires_.answers.empty()) << "nobody has said that it is dead";
    wires_.living.push_back(other_);
    ASSERT_TRUE(soon([&] { return !wires_.asks.empty() && !wires_.holds.empty(); }));
    EXPECT_EQ(wires_.holds[0].second.held_size(), 1) << "and it hears that its object is held";
    wires_.asks[0].done(value("x"));
    EXPECT_EQ(answer(5).value(), "x");
  });
}

TEST_F(ObjectServiceTest, OneThatIsDeadIsTheReasonAtOnce) {
  run([this] {
    wires_.dead[base::short_id(other_)].set_kind(proto::NODE_LOST);
    resolve(5, minted_at(other_));
    EXPECT_EQ(answer(5).failure().kind(), proto::OBJECT_LOST);
    EXPECT_EQ(answer(5).failure().death().kind(), proto::NODE_LOST);
  });
}

TEST_F(ObjectServiceTest, AHomeWhoseConnectionBrokeIsAskedAgain) {
  run([this] {
    wires_.living.push_back(other_);
    resolve(5, minted_at(other_));
    ASSERT_EQ(wires_.asks.size(), 1u);
    wires_.asks[0].done(absl::UnavailableError("Socket closed"));
    EXPECT_TRUE(wires_.answers.empty());
    ASSERT_TRUE(soon([&] { return wires_.asks.size() == 2; }));
    wires_.asks[1].done(value("x"));
    EXPECT_EQ(answer(5).value(), "x");
  });
}

// Its only copy was sealed on a node that is dead before it could tell this home.
TEST_F(ObjectServiceTest, AResultThatWasSealedOnALostNodeIsLost) {
  run([this] {
    const ObjectId object{base::short_id(wires_.own), base::short_id(process_), 1};
    proto::ResolveObject request;
    *request.mutable_object() = rpc::to_proto(object);
    request.set_fetch(true);
    rpc::to_proto(other_, request.mutable_sealed_on());
    request.set_sealed_bytes(200'000);
    wires_.living.push_back(other_);
    service_->resolve(process_, 5, request);
    EXPECT_TRUE(wires_.answers.empty());
    proto::DeathRecord death;
    death.set_kind(proto::NODE_LOST);
    service_->node_gone(other_, death);
    EXPECT_EQ(answer(5).failure().kind(), proto::OBJECT_LOST);
    EXPECT_EQ(answer(5).failure().death().kind(), proto::NODE_LOST);
    service_->process_gone(process_, {});
    EXPECT_TRUE(soon([&] { return service_->list().empty(); })) << "the pull has ended, and nothing is left of it";
  });
}

// An object that is not to come while its minter lives: each node that asked in vain would leave an entry and an asker.
TEST_F(ObjectServiceTest, AnAskThatIsCancelledLeavesNothing) {
  run([this] {
    proto::AskObjectRequest request;
    rpc::to_proto(other_, request.mutable_node());
    *request.mutable_object() = rpc::to_proto(ObjectId{base::short_id(wires_.own), base::short_id(process_), 1});
    int answers = 0;
    const uint64_t ask = service_->ask(request, [&](const proto::AskObjectReply&) { ++answers; });
    EXPECT_EQ(service_->list().size(), 1u);
    service_->cancel_ask(ask);
    EXPECT_TRUE(soon([&] { return service_->list().empty(); }));
    EXPECT_EQ(answers, 0);
  });
}

// Else what a node has made for us stays in its arena until it is full.
TEST_F(ObjectServiceTest, WhoHasACopyHearsThatItsObjectIsGoneWhenTheLinkIsBack) {
  run([this] {
    wires_.living.push_back(other_);
    wires_.link_holds = false;
    proto::HoldObjectsRequest told;
    rpc::to_proto(other_, told.mutable_node());
    told.set_number(1);
    const ObjectId object{base::short_id(wires_.own), base::short_id(process_), 1};
    *told.add_copies()->mutable_object() = rpc::to_proto(object);
    service_->hold(told);
    proto::PublishObject given_up;  // by its caller
    *given_up.mutable_object() = rpc::to_proto(object);
    given_up.set_gone(true);
    service_->publish(process_, given_up);
    ASSERT_TRUE(soon([&] { return !wires_.drops.empty(); })) << "nobody holds it";
    EXPECT_TRUE(service_->list().empty());
    wires_.link_holds = true;
    ASSERT_TRUE(soon([&] { return wires_.drops.size() == 2; }));
    EXPECT_EQ(wires_.drops[1].first, other_);
    EXPECT_EQ(rpc::from_proto(wires_.drops[1].second.objects(0)), object);
  });
}

TEST_F(ObjectServiceTest, TheAsksOfANodeThatHasGoneGoWithIt) {
  run([this] {
    proto::AskObjectRequest request;
    rpc::to_proto(other_, request.mutable_node());
    *request.mutable_object() = rpc::to_proto(ObjectId{base::short_id(wires_.own), base::short_id(process_), 1});
    std::optional<proto::AskObjectReply> reply;
    (void)service_->ask(request, [&](proto::AskObjectReply told) { reply = std::move(told); });
    service_->node_gone(other_, {});
    ASSERT_TRUE(reply) << "its handler ends";
    EXPECT_TRUE(reply->has_failure());
    EXPECT_TRUE(soon([&] { return service_->list().empty(); }));
  });
}

}  // namespace
}  // namespace rayo::raylet
