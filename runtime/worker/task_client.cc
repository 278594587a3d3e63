#include "runtime/worker/task_client.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/worker/demand.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {
// How long a broken link waits for the record of the worker's end.
constexpr base::Duration kVerdict = std::chrono::seconds(15);
}  // namespace

// What tasks ask of a node, with those that ask it.
struct TaskClient::Shape {
  uint64_t number = 0;
  TaskOptions options;
  proto::Demand demand;
  std::string name;  // of the last task
  std::deque<std::unique_ptr<OutgoingCall>> queue;
  std::list<std::unique_ptr<OutgoingCall>> blocked;  // wait for their arguments
  std::list<std::unique_ptr<Worker>> workers;
  std::vector<Worker*> idle;  // linked and free; the last one was used last
  size_t requested = 0;       // told to the raylet and not granted yet
};

// A leased worker.
class TaskClient::Worker : public CallOwner {
 public:
  Worker(TaskClient& client, Shape& shape, const LeaseId& lease) : client_(client), shape_(shape), lease_(lease) {}

  PeerId link() const override { return link_; }
  void answered(uint64_t) override {
    busy_ = false;
    client_.became_idle(*this);
  }
  // It may still run: no other task goes behind it (1).
  void given_up(uint64_t call_id) override { given_up_ = call_id; }
  void linked(PeerId peer) override {
    link_ = peer;
    client_.became_idle(*this);
  }
  void link_failed(const ErrorRecord& why) override { client_.remove(*this, &why, true); }
  void link_lost() override {
    link_ = kNoPeer;
    if (verdict_) return client_.remove(*this, &why_, false);  // its end is known: this was the last of its replies
    if (!busy_) return client_.remove(*this, nullptr, true);
    why_ = error_record(ErrorKind::kTaskSystem, base::cat("task ", task_, ": the connection to its worker broke"));
    await_verdict(kVerdict);
  }
  bool idle() const override { return !busy_; }
  void unlinked() override {
    link_ = kNoPeer;
    client_.remove(*this, nullptr, true);
  }
  void peer_gone(const proto::DeathRecord& death) override {
    why_ = task_worker_died(task_, death);
    // Its last reply may still be in the ring, whose end comes after it (link_lost).
    if (link_ != kNoPeer && busy_) return await_verdict(std::chrono::milliseconds(30));
    client_.remove(*this, &why_, false);
  }
  void on_deadline(base::TimePoint) override {
    armed_ = false;
    if (verdict_) return client_.remove(*this, &why_, true);
    if (busy_) return;
    if (uses_ != uses_when_armed_) return stay_warm();
    client_.remove(*this, nullptr, true);
  }
  std::string who() const override { return base::cat("task ", task_); }

  // One alarm for many short tasks: it looks whether the worker was used since.
  void stay_warm() {
    if (armed_) return;
    armed_ = true;
    uses_when_armed_ = uses_;
    client_.wire_.wake_at(client_.wire_.now() + kWarm, *this);
  }
  void await_verdict(base::Duration span) {
    verdict_ = true;
    client_.wire_.wake_at(client_.wire_.now() + span, *this);
  }

  TaskClient& client_;
  Shape& shape_;
  const LeaseId lease_;
  PeerId link_ = kNoPeer;
  bool busy_ = false;
  uint64_t given_up_ = 0;  // the call whose reply nobody but this waits for
  std::string task_;
  uint64_t uses_ = 0;
  bool armed_ = false;
  uint64_t uses_when_armed_ = 0;
  bool verdict_ = false;
  ErrorRecord why_;
};

TaskClient::TaskClient(ObjectTable& table, CallWire& wire) : table_(table), wire_(wire) {}
TaskClient::~TaskClient() = default;

size_t TaskClient::backlog() const {
  size_t sum = 0;
  for (const auto& shape : shapes_) sum += shape->queue.size() + shape->blocked.size();
  return sum;
}

TaskClient::Shape& TaskClient::shape_of(const TaskOptions& options) {
  if (last_ && same_demand(last_->options, options)) return *last_;
  for (auto& shape : shapes_)
    if (same_demand(shape->options, options)) return *(last_ = shape.get());
  auto shape = std::make_unique<Shape>();
  shape->number = next_shape_++;
  shape->options = options;
  shape->demand = demand_of(options);
  shapes_.push_back(std::move(shape));
  return *(last_ = shapes_.back().get());
}

void TaskClient::submit(const TaskOptions& options, std::string_view name, std::unique_ptr<OutgoingCall> call) {
  Shape& shape = shape_of(options);
  if (shape.name != name) shape.name = name;
  call->result.call = true;
  OutgoingCall* waiting = call.get();
  call->await_arguments([this, &shape, waiting] { unblock(shape, waiting); });
  if (call->ready()) return enqueue(shape, std::move(call));
  shape.blocked.push_back(std::move(call));
}

std::unique_ptr<OutgoingCall> TaskClient::withdraw(const ObjectSlot& result) {
  const auto is_it = [&](const auto& call) { return &call->result == &result; };
  for (auto& shape : shapes_) {
    std::unique_ptr<OutgoingCall> call;
    if (auto at = std::find_if(shape->queue.begin(), shape->queue.end(), is_it); at != shape->queue.end()) {
      call = std::move(*at);
      shape->queue.erase(at);
      request(*shape);
      return call;
    }
    if (auto at = std::find_if(shape->blocked.begin(), shape->blocked.end(), is_it); at != shape->blocked.end()) {
      call = std::move(*at);
      shape->blocked.erase(at);
      return call;
    }
  }
  return nullptr;
}

void TaskClient::on_late_reply(PeerId peer, uint64_t call_id) {
  for (auto& shape : shapes_)
    for (auto& worker : shape->workers)
      if (worker->link_ == peer && worker->given_up_ == call_id) {
        worker->given_up_ = 0;
        return worker->answered(call_id);
      }
}

void TaskClient::unblock(Shape& shape, OutgoingCall* call) {
  auto at =
      std::find_if(shape.blocked.begin(), shape.blocked.end(), [&](const auto& each) { return each.get() == call; });
  std::unique_ptr<OutgoingCall> ready = std::move(*at);
  shape.blocked.erase(at);
  enqueue(shape, std::move(ready));
}

void TaskClient::enqueue(Shape& shape, std::unique_ptr<OutgoingCall> call) {
  if (const ErrorRecord* error = call->failed_argument()) {
    table_.fail(call->result, *error);
    return;
  }
  shape.queue.push_back(std::move(call));
  dispatch(shape);
}

bool TaskClient::send(Worker& worker, std::unique_ptr<OutgoingCall>& call) {
  rpc::FrameHeader header;
  if (!call->send(worker.link_, header)) return false;
  worker.busy_ = true;
  ++worker.uses_;
  if (worker.task_ != worker.shape_.name) worker.task_ = worker.shape_.name;
  call->result.owner = &worker;
  call.reset();
  return true;
}

void TaskClient::dispatch(Shape& shape) {
  while (!shape.queue.empty()) {
    if (shape.queue.front()->result.ready()) {  // its time passed while it waited
      shape.queue.pop_front();
      continue;
    }
    if (shape.idle.empty()) break;
    Worker& worker = *shape.idle.back();
    shape.idle.pop_back();
    if (send(worker, shape.queue.front())) shape.queue.pop_front();
  }
  request(shape);
}

void TaskClient::request(Shape& shape) {
  const size_t backlog = shape.queue.size();
  const bool more = backlog > 0 && backlog >= 2 * shape.requested && backlog != shape.requested;
  const bool none = backlog == 0 && shape.requested != 0;
  if (!more && !none) return;
  proto::RequestLeases request;
  request.set_shape(shape.number);
  *request.mutable_demand() = shape.demand;
  request.set_count(static_cast<int32_t>(backlog));
  request.set_depth(depth_);
  request.set_what(shape.name);
  shape.requested = backlog;
  wire_.request_leases(request);
}

void TaskClient::on_granted(const proto::LeaseGranted& granted) {
  auto found =
      std::find_if(shapes_.begin(), shapes_.end(), [&](const auto& each) { return each->number == granted.shape(); });
  if (found == shapes_.end()) return;
  Shape& shape = **found;
  if (granted.has_failure()) {
    shape.requested = 0;
    return fail_queue(shape, record_of(granted.failure()));
  }
  if (shape.requested != 0) --shape.requested;
  const auto lease = id_of<LeaseId>(granted.lease());
  for (const auto& worker : shape.workers)
    if (worker->lease_ == lease) return;  // told twice
  shape.workers.push_back(std::make_unique<Worker>(*this, shape, lease));
  wire_.connect(granted.worker(), *shape.workers.back());
}

void TaskClient::became_idle(Worker& worker) {
  Shape& shape = worker.shape_;
  if (worker.link_ == kNoPeer || worker.busy_) return;
  // The next one goes to another node.
  if (shape.options.spread && worker.uses_ != 0) return remove(worker, nullptr, true);
  if (std::find(shape.idle.begin(), shape.idle.end(), &worker) == shape.idle.end()) shape.idle.push_back(&worker);
  dispatch(shape);
  if (!worker.busy_) worker.stay_warm();
}

void TaskClient::remove(Worker& worker, const ErrorRecord* why, bool give_back) {
  Shape& shape = worker.shape_;
  auto at =
      std::find_if(shape.workers.begin(), shape.workers.end(), [&](const auto& each) { return each.get() == &worker; });
  std::unique_ptr<Worker> gone = std::move(*at);
  shape.workers.erase(at);
  std::erase(shape.idle, &worker);
  wire_.disconnect(*gone);
  if (give_back) wire_.return_lease(gone->lease_, why != nullptr);
  if (why) table_.for_each_owned(gone.get(), [&](ObjectSlot& slot) { table_.fail(slot, *why); });
  request(shape);
}

void TaskClient::fail_queue(Shape& shape, const ErrorRecord& why) {
  auto queue = std::exchange(shape.queue, {});
  for (auto& call : queue) table_.fail(call->result, why);
}

void TaskClient::on_failure(const ErrorRecord& why) {
  for (auto& shape : shapes_) {
    fail_queue(*shape, why);
    while (!shape->workers.empty()) remove(*shape->workers.front(), &why, false);
  }
}

}  // namespace rayo::worker
