#include "runtime/raylet/output.h"

#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

// Pieces that wait for the head: beyond, output of workers for drivers elsewhere is dropped.
constexpr size_t kQueueLimit = 1000;
constexpr base::Duration kKeptFor = 5s;  // a dead process's name, for lines that are still on their way

// "actor Counter" is shown as "Counter".
std::string source_name(const std::string& what) {
  size_t space = what.find(' ');
  return space == std::string::npos ? what : what.substr(space + 1);
}

}  // namespace

Output::Output(base::Loop& loop, const OwnNode& own, Processes& processes, Jobs& jobs, HeadLink& head)
    : loop_(loop), own_(own), processes_(processes), jobs_(jobs), head_(head) {
  tasks_.spawn("output to head", [this] {
    while (auto request = to_head_.pop()) (void)head_.relay(*request, loop_.deadline(5s));
  });
  processes_.on_end([this](const LocalProcess& process, const proto::DeathRecord&) {
    gone_[process.id] = {process.job, process.what, process.pid};
    process_gone(process.id);
  });
}

Output::~Output() = default;

std::optional<Output::Source> Output::source_of(ProcessId id) {
  if (const LocalProcess* process = processes_.find(id)) return Source{process->job, process->what, process->pid};
  auto gone = gone_.find(id);
  return gone == gone_.end() ? std::nullopt : std::optional(gone->second);
}

void Output::show(ProcessId process, bool error, std::vector<std::string> shown, int64_t dropped) {
  std::optional<Source> source = source_of(process);
  if (!source || (shown.empty() && dropped == 0)) return;
  proto::LogLines lines;
  lines.set_source(source->what.empty() ? "worker" : source_name(source->what));
  lines.set_pid(source->pid);
  lines.set_node(own_.hostname);
  lines.set_error(error);
  for (auto& line : shown) lines.add_lines(std::move(line));
  lines.set_dropped(dropped);
  to_driver(source->job, std::move(lines));
}

void Output::printed(PrintedLines printed) {
  auto admitted = relay_.admit(printed.process, static_cast<int64_t>(printed.lines.size()), loop_.now());
  printed.lines.resize(static_cast<size_t>(admitted.lines));
  show(printed.process, printed.error, std::move(printed.lines), admitted.dropped);
  tell_later();
}

// Of a flood that is over nothing else would tell how much of it was left out.
void Output::tell_later() {
  base::TimePoint at = relay_.next_due();
  if (at == base::kForever || telling_.pending()) return;
  telling_ = loop_.after(at - loop_.now(), [this] {
    for (auto [process, dropped] : relay_.due(loop_.now())) show(process, true, {}, dropped);
    tell_later();
  });
}

void Output::to_driver(JobId id, proto::LogLines lines) {
  const Job* job = jobs_.find(id);
  if (!job || !job->node) return;  // a detached actor's job has no driver
  if (job->node == own_.id) {
    proto::ToWorker message;
    *message.mutable_log_lines() = std::move(lines);
    processes_.send(job->driver, 0, message);
    return;
  }
  if (to_head_.size() >= kQueueLimit) return;
  proto::RelayRequest request;
  rpc::to_proto(own_.id, request.mutable_node());
  rpc::to_proto(id, request.mutable_job());
  rpc::to_proto(id, request.mutable_log_lines()->mutable_job());
  *request.mutable_log_lines()->mutable_lines() = std::move(lines);
  to_head_.push(std::move(request));
}

void Output::from_head(const proto::LogLinesFor& lines) {
  const Job* job = jobs_.find(rpc::from_proto<JobId>(lines.job()));
  if (!job || job->node != own_.id) return;
  proto::ToWorker message;
  *message.mutable_log_lines() = lines.lines();
  processes_.send(job->driver, 0, message);
}

void Output::notice(const proto::NoticeFor& notice) {
  const Job* job = jobs_.find(rpc::from_proto<JobId>(notice.job()));
  if (!job || job->node != own_.id) return;
  proto::ToWorker message;
  *message.mutable_notice() = notice.notice();
  processes_.send(job->driver, 0, message);
}

void Output::process_gone(ProcessId process) {
  tasks_.spawn("forget output", [this, process] {
    base::sleep_for(kKeptFor);
    relay_.forget(process);
    gone_.erase(process);
  });
}

}  // namespace rayo::raylet
