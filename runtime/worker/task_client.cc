#include "runtime/worker/task_client.h"

#include <algorithm>
#include <optional>

#include <rayo/internal/registry.h>

#include "runtime/base/text.h"
#include "runtime/worker/call_body.h"
#include "runtime/worker/demand.h"
#include "runtime/worker/failure.h"
#include "runtime/worker/task_window.h"

namespace rayo::worker {

namespace {
// How long a broken link waits for the record of the worker's end.
constexpr base::Duration kVerdict = std::chrono::seconds(15);

std::string_view name_of(const OutgoingCall* call, uint64_t function) {
  if (call && call->name) return call->name;
  const internal::Function* known = internal::find_function(function);
  return known ? known->name : "task";
}
}  // namespace

// What tasks ask of a node, with those that ask it.
struct TaskClient::Shape {
  uint64_t number = 0;
  TaskOptions options;
  JobId program;
  proto::Demand demand;
  std::string name;  // of the last task
  TaskPace pace;
  std::deque<std::unique_ptr<OutgoingCall>> queue;
  std::list<std::unique_ptr<OutgoingCall>> blocked;  // wait for their arguments
  std::list<std::unique_ptr<Worker>> workers;
  std::vector<Worker*> idle;  // linked and free; the last one was used last
  Worker* last = nullptr;     // to which the last task was sent
  size_t requested = 0;       // told to the raylet and not granted yet
};

// A leased worker.
class TaskClient::Worker : public CallOwner {
 public:
  Worker(TaskClient& client, Shape& shape, const LeaseId& lease, const NodeId& node)
      : client_(client), shape_(shape), lease_(lease), node_(node) {}

  PeerId link() const override { return link_; }
  void answered(uint64_t call_id, uint64_t ran_us) override {
    const auto code = window_.ended(call_id, client_.wire_.now());
    if (!code) return;
    if (ran_us != 0) shape_.pace.took(*code, std::chrono::microseconds(ran_us));
    client_.moved_on(*this);
  }
  void given_up(uint64_t call_id) override { window_.given_up(call_id); }
  void linked(PeerId peer) override {
    link_ = peer;
    client_.moved_on(*this);
  }
  void link_failed(const ErrorRecord&) override { client_.remove(*this, Lease::kSuspect); }
  void link_lost() override {
    link_ = kNoPeer;
    if (death_) return client_.remove(*this, Lease::kGone);  // this was the last of its replies
    if (window_.empty()) return client_.remove(*this, Lease::kFree);
    await_verdict(kVerdict);
  }
  bool idle() const override { return window_.empty(); }
  void unlinked() override {
    link_ = kNoPeer;
    client_.remove(*this, Lease::kFree);
  }
  void peer_gone(const proto::DeathRecord& death) override {
    death_ = death;
    if (death.kind() == proto::NODE_LOST) client_.pass_over(node_);
    // Its last replies may still be in the ring, whose end comes after them (link_lost).
    if (link_ != kNoPeer && !window_.empty()) return await_verdict(std::chrono::milliseconds(30));
    client_.remove(*this, Lease::kGone);
  }
  void on_deadline(base::TimePoint now) override {
    if (now >= verdict_at_) return client_.remove(*this, death_ ? Lease::kGone : Lease::kSuspect);
    if (now >= look_at_) {
      look_at_ = base::kForever;
      if (window_.stalled(now))
        client_.ask_back(*this);
      else
        look_later();
    }
    if (now < warm_until_) return;
    warm_until_ = base::kForever;
    if (!window_.empty()) return;
    if (uses_ != uses_when_warm_) return stay_warm();
    client_.remove(*this, Lease::kFree);
  }
  std::string who() const override {
    if (window_.empty()) return base::cat("task ", shape_.name);
    return base::cat("task ", name_of(window_.first().call.get(), window_.first().function));
  }

  // One alarm for many short tasks: it looks whether the worker was used since.
  void stay_warm() {
    if (warm_until_ != base::kForever) return;
    uses_when_warm_ = uses_;
    client_.wire_.wake_at(warm_until_ = client_.wire_.now() + kWarm, *this);
  }
  // Again one for many: where the worker has moved on by then, it is set anew.
  void look_later() {
    if (look_at_ != base::kForever || window_.look_at() == base::kForever) return;
    client_.wire_.wake_at(look_at_ = window_.look_at(), *this);
  }
  void await_verdict(base::Duration span) { client_.wire_.wake_at(verdict_at_ = client_.wire_.now() + span, *this); }
  // Whether one more task may be sent to it.
  bool takes(base::Duration expected) const {
    const auto most = static_cast<uint64_t>(shape_.options.max_calls);
    return link_ != kNoPeer && !death_ && !passed_over_ && (most == 0 || uses_ < most) && window_.takes(expected);
  }
  ErrorRecord end_of(const OutgoingCall& call) const {
    const std::string_view name = name_of(&call, call.function);
    ErrorRecord record =
        death_ ? task_worker_died(name, *death_)
               : error_record(ErrorKind::kTaskSystem, base::cat("task ", name, ": the connection to its worker broke"));
    if (call.runs_lost > 0) record.text += base::cat("; it was run ", call.runs_lost + 1, " times");
    return record;
  }

  TaskClient& client_;
  Shape& shape_;
  const LeaseId lease_;
  const NodeId node_;
  bool passed_over_ = false;
  PeerId link_ = kNoPeer;
  TaskWindow window_;
  uint64_t uses_ = 0;
  uint64_t uses_when_warm_ = 0;
  base::TimePoint warm_until_ = base::kForever;
  base::TimePoint look_at_ = base::kForever;
  base::TimePoint verdict_at_ = base::kForever;
  std::optional<proto::DeathRecord> death_;
};

TaskClient::TaskClient(ObjectTable& table, CallWire& wire) : table_(table), wire_(wire) {}
TaskClient::~TaskClient() = default;

size_t TaskClient::backlog() const {
  size_t sum = 0;
  for (const auto& shape : shapes_) sum += shape->queue.size() + shape->blocked.size();
  return sum;
}

TaskClient::Shape& TaskClient::shape_of(const TaskOptions& options, const JobId& program) {
  const auto is_it = [&](const Shape& shape) {
    return shape.program == program && same_demand(shape.options, options);
  };
  if (last_ && is_it(*last_)) return *last_;
  for (auto& shape : shapes_)
    if (is_it(*shape)) return *(last_ = shape.get());
  auto shape = std::make_unique<Shape>();
  shape->number = next_shape_++;
  shape->options = options;
  shape->program = program;
  shape->demand = demand_of(options);
  shapes_.push_back(std::move(shape));
  return *(last_ = shapes_.back().get());
}

bool TaskClient::submit(const TaskOptions& options, std::string_view name, std::unique_ptr<OutgoingCall> call,
                        const JobId& program) {
  at_once_ = false;
  Shape& shape = shape_of(options, program);
  if (shape.name != name) shape.name = name;
  call->result.call = true;
  call->retries = options.max_retries;
  OutgoingCall* waiting = call.get();
  call->await_arguments([this, &shape, waiting] { unblock(shape, waiting); });
  if (call->ready())
    enqueue(shape, std::move(call));
  else
    shape.blocked.push_back(std::move(call));
  return at_once_;
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

void TaskClient::on_late_reply(PeerId peer, uint64_t call_id, uint64_t ran_us) {
  for (auto& shape : shapes_)
    for (auto& worker : shape->workers)
      if (worker->link_ == peer) return worker->answered(call_id, ran_us);
}

void TaskClient::on_returned(PeerId peer, uint64_t call_id) {
  for (auto& shape : shapes_)
    for (auto& worker : shape->workers) {
      std::unique_ptr<OutgoingCall> call;
      if (worker->link_ != peer || !worker->window_.returned(call_id, call)) continue;
      if (!call) return moved_on(*worker);
      call->take_back();
      shape->queue.push_front(std::move(call));
      return moved_on(*worker);
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
  const ErrorRecord* error = call->failed_argument();
  if (!error && gone_) error = &*gone_;
  if (error) return fail(std::move(call), *error);
  shape.queue.push_back(std::move(call));
  dispatch(shape);
}

void TaskClient::fail(std::unique_ptr<OutgoingCall> call, const ErrorRecord& why) {
  failing_.push_back({std::move(call), why});
  if (failing_.size() > 1) return;
  for (; !failing_.empty(); failing_.pop_front()) table_.fail(failing_.front().call->result, failing_.front().why);
}

// Behind others where they are soon done, else to a worker that rests, else where the least is to be done.
TaskClient::Worker* TaskClient::choose(Shape& shape, base::Duration expected) {
  Worker* last = shape.options.spread ? nullptr : shape.last;
  if (last && !last->window_.empty() && last->window_.expected() + expected <= kWakeUp && last->takes(expected))
    return last;
  if (!shape.idle.empty()) return shape.idle.back();
  Worker* least = nullptr;
  if (shape.options.spread || expected > kAhead) return nullptr;
  for (auto& worker : shape.workers)
    if (worker->takes(expected) && (!least || worker->window_.expected() < least->window_.expected()))
      least = worker.get();
  return least;
}

bool TaskClient::send(Worker& worker, std::unique_ptr<OutgoingCall>& call, base::Duration expected) {
  Shape& shape = worker.shape_;
  std::erase(shape.idle, &worker);
  rpc::FrameHeader header;
  if (!call->send(worker.link_, header, true)) return false;
  at_once_ |= worker.window_.empty();
  ++worker.uses_;
  shape.last = &worker;
  call->result.owner = &worker;
  TaskWindow::Task task{call->result.id.counter, call->function, call->code(), expected, std::move(call)};
  worker.window_.sent(std::move(task), wire_.now());
  worker.look_later();
  return true;
}

void TaskClient::dispatch(Shape& shape) {
  while (!shape.queue.empty()) {
    OutgoingCall& next = *shape.queue.front();
    if (next.result.ready()) {  // its time passed while it waited
      shape.queue.pop_front();
      continue;
    }
    // One whose arguments are fetched first would hold up those behind it.
    const base::Duration expected = next.self_contained() ? shape.pace.expected(next.code()) : kUnmeasured;
    Worker* worker = choose(shape, expected);
    if (!worker) break;
    const bool rested = worker->window_.empty();
    if (send(*worker, shape.queue.front(), expected))
      shape.queue.pop_front();
    else if (!rested)
      break;  // it takes no more for now; one that rests is gone, and is not idle any more
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
  if (shape.program) set_id(request.mutable_job(), shape.program);
  shape.requested = backlog;
  at_once_ = true;
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
  shape.workers.push_back(std::make_unique<Worker>(*this, shape, lease, id_of<NodeId>(granted.worker().node())));
  wire_.connect(granted.worker(), *shape.workers.back());
}

void TaskClient::moved_on(Worker& worker) {
  Shape& shape = worker.shape_;
  if (worker.link_ == kNoPeer) return;
  if (worker.window_.empty()) {
    if (shape.options.spread && worker.uses_ != 0)
      return remove(worker, Lease::kFree);  // the next goes to another node
    if (shape.options.max_calls != 0 && worker.uses_ >= static_cast<uint64_t>(shape.options.max_calls))
      return remove(worker, Lease::kFree);
    if (worker.passed_over_) return;
    if (std::find(shape.idle.begin(), shape.idle.end(), &worker) == shape.idle.end()) shape.idle.push_back(&worker);
  }
  dispatch(shape);
  if (worker.window_.empty()) worker.stay_warm();
}

// Its first task takes long, or waits for one behind it.
void TaskClient::ask_back(Worker& worker) {
  worker.shape_.pace.took(worker.window_.first().code, kStall);
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kCancel;
  header.function = rpc::kCancelTakeBack;
  header.flags = rpc::kFlagUrgent;
  header.call_id = worker.window_.first().call_id;
  wire_.send(worker.link_, header, {});
}

std::unique_ptr<TaskClient::Worker> TaskClient::take_out(Worker& worker) {
  Shape& shape = worker.shape_;
  auto at =
      std::find_if(shape.workers.begin(), shape.workers.end(), [&](const auto& each) { return each.get() == &worker; });
  std::unique_ptr<Worker> gone = std::move(*at);
  shape.workers.erase(at);
  std::erase(shape.idle, &worker);
  if (shape.last == &worker) shape.last = nullptr;
  wire_.disconnect(worker);
  return gone;
}

void TaskClient::remove(Worker& worker, Lease lease) {
  Shape& shape = worker.shape_;
  const std::unique_ptr<Worker> gone = take_out(worker);
  if (lease != Lease::kGone) wire_.return_lease(gone->lease_, after(*gone, lease));
  // Of a node that is lost, answers may be lost too: any of them may have begun.
  const bool answers_are_here = gone->death_ && gone->death_->kind() != proto::NODE_LOST;
  auto unbegun = answers_are_here ? gone->window_.take_unbegun() : std::vector<std::unique_ptr<OutgoingCall>>();
  for (; !unbegun.empty(); unbegun.pop_back()) {
    unbegun.back()->take_back();
    shape.queue.push_front(std::move(unbegun.back()));
  }
  auto begun = gone->window_.take_rest();
  for (; !begun.empty(); begun.pop_back()) end_run(*gone, std::move(begun.back()));
  dispatch(shape);
}

void TaskClient::end_run(const Worker& gone, std::unique_ptr<OutgoingCall> call) {
  if (call->retries >= 0 && call->runs_lost >= call->retries) return table_.fail(call->result, gone.end_of(*call));
  ++call->runs_lost;
  call->take_back();
  gone.shape_.queue.push_front(std::move(call));
}

void TaskClient::pass_over(const NodeId& node) {
  for (auto& shape : shapes_) {
    for (auto& worker : shape->workers) worker->passed_over_ |= worker->node_ == node;
    std::erase_if(shape->idle, [](const Worker* worker) { return worker->passed_over_; });
  }
}

// Who counts its runs cannot see those under other leases, so none that has run goes back to others.
GiveBack TaskClient::after(const Worker& worker, Lease lease) const {
  if (lease == Lease::kSuspect) return GiveBack::kSuspect;
  return worker.shape_.options.max_calls != 0 && worker.uses_ != 0 ? GiveBack::kRetired : GiveBack::kFree;
}

void TaskClient::fail_queue(Shape& shape, const ErrorRecord& why) {
  auto queue = std::exchange(shape.queue, {});
  for (auto& call : queue) table_.fail(call->result, why);
}

void TaskClient::on_failure(const ErrorRecord& why) {
  gone_ = why;
  for (auto& shape : shapes_) {
    fail_queue(*shape, why);
    while (!shape->workers.empty()) {
      const std::unique_ptr<Worker> gone = take_out(*shape->workers.front());
      for (const TaskWindow::Task& task : gone->window_.tasks())
        if (task.call) table_.fail(task.call->result, why);
    }
  }
}

}  // namespace rayo::worker
