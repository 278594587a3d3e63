// The worker that the raylet's tests start: the test program itself, turned into one by its main where the
// raylet's environment says so. FAKE=exit ends before hello; FAKE=silent never says it. As a zygote it forks
// workers with clone3 and CLONE_PARENT.
#include "tests/runtime/raylet/fake_worker.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "runtime/base/loop/socket.h"

namespace rayo::raylet {
namespace {

[[noreturn]] void work(FakeProcess& process) {
  if (!process.hello()) _exit(4);
  while (auto frame = process.receive()) {
    if (frame->message.has_exit()) _exit(0);
    if (frame->message.has_host_tasks()) std::puts("hosting tasks"), std::fflush(stdout);
    if (!frame->message.has_host_actor()) continue;
    const auto& host = frame->message.host_actor();
    std::printf("hosting %s\n", host.spec().class_name().c_str());
    std::fflush(stdout);
    proto::ToRaylet started;
    *started.mutable_actor_started()->mutable_actor() = host.spec().actor();
    started.mutable_actor_started()->set_incarnation(host.incarnation());
    if (host.spec().class_name() == "Throws") {
      started.mutable_actor_started()->mutable_failure()->set_kind(proto::TASK_ERROR);
      started.mutable_actor_started()->mutable_failure()->set_text("it threw");
    }
    process.send(0, started);
  }
  _exit(0);
}

pid_t fork_worker(const proto::Fork& fork, std::vector<base::Fd>& fds) {
  clone_args arguments{};
  arguments.flags = CLONE_PARENT;
  auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
  if (pid != 0) return pid;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(fds[1].get(), 1);
  ::dup2(fds[2].get(), 2);
  FakeProcess process(std::move(fds[0]), rpc::from_proto<ProcessId>(fork.process()), proto::WORKER);
  work(process);
}

[[noreturn]] void fork_on_demand(FakeProcess& process) {
  if (!process.hello()) _exit(4);
  while (auto frame = process.receive()) {
    if (frame->message.has_exit()) _exit(0);
    if (!frame->message.has_fork()) continue;
    proto::ToRaylet done;
    *done.mutable_fork_done()->mutable_process() = frame->message.fork().process();
    done.mutable_fork_done()->set_pid(fork_worker(frame->message.fork(), frame->fds));
    process.send(0, done);
  }
  _exit(0);
}

}  // namespace

void become_worker_where_asked() {
  const char* id = std::getenv("RAYO_WORKER");
  const char* path = std::getenv("RAYO_WORKER_SOCKET");
  if (!id || !path) return;
  const char* fake = std::getenv("FAKE");
  std::string_view mode = fake ? fake : "";
  if (mode == "exit") {
    std::fputs("no such library\n", stderr);
    _exit(3);
  }
  if (mode == "silent") {
    while (true) ::pause();
  }
  auto socket = base::connect_unix(path);
  if (!socket.ok()) _exit(5);
  bool zygote = std::getenv("RAYO_WORKER_ZYGOTE") && mode != "exec";
  FakeProcess process(std::move(*socket), *ProcessId::from_hex(id), zygote ? proto::ZYGOTE : proto::WORKER);
  if (zygote) fork_on_demand(process);
  work(process);
}

TEST(FakeWorker, IsNoneWithoutTheRayletsEnvironment) { EXPECT_EQ(std::getenv("RAYO_WORKER"), nullptr); }

}  // namespace rayo::raylet

int main(int argc, char** argv) {
  rayo::raylet::become_worker_where_asked();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
