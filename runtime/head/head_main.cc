// rayo-head --settings FILE --ready-fd N: the head of a cluster, started by `rayo start --head` under a keeper.
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <string>
#include <sys/stat.h>

#include "runtime/base/log.h"
#include "runtime/base/loop/loop.h"
#include "runtime/base/loop/signals.h"
#include "runtime/base/open_files.h"
#include "runtime/base/settings.h"
#include "runtime/head/head_process.h"

namespace {

struct Arguments {
  std::string settings;
  int ready_fd = -1;
};

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--settings")) {
      out.settings = argv[i + 1];
    } else if (!std::strcmp(argv[i], "--ready-fd")) {
      out.ready_fd = std::atoi(argv[i + 1]);
    } else {
      return false;
    }
  }
  return !out.settings.empty();
}

void tell(int fd, const rayo::base::Readiness& readiness) {
  if (fd >= 0) rayo::base::tell_ready(fd, readiness);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rayo;
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr, "rayo: rayo-head is started by `rayo start --head`\ntry: rayo help start\n");
    return 2;
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  ::umask(077);
  base::raise_open_files();
  base::init_log("head");
  auto settings = base::read_head_settings(arguments.settings);
  if (!settings.ok()) {
    tell(arguments.ready_fd, {.exit_code = 2,
                              .error = std::string(base::message(settings.status())),
                              .next_step = base::next_step(settings.status())});
    return 2;
  }
  int exit_code = 0;
  base::Loop loop;
  loop.spawn("main", [&] {
    head::HeadProcess head(loop, *settings);
    base::Signals signals(loop, {SIGTERM, SIGINT}, [&](int) { head.ask_stop(); });
    auto ready = head.start();
    tell(arguments.ready_fd, ready);
    if (!ready.ok) exit_code = ready.exit_code;
    head.serve();
    loop.stop();
  });
  loop.run();
  return exit_code;
}
