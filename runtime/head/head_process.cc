#include "runtime/head/head_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/loop/blocking.h"
#include "runtime/base/loop/socket.h"
#include "runtime/base/pid_file.h"
#include "runtime/base/session.h"
#include "runtime/base/text.h"
#include "runtime/head/core.h"
#include "runtime/head/driver_desk.h"
#include "runtime/head/foundation.h"
#include "runtime/head/head_service.h"
#include "runtime/head/http_server.h"
#include "runtime/head/node_prober.h"
#include "runtime/rpc/data_header.h"
#include "runtime/rpc/grpc/port.h"
#include "runtime/rpc/grpc/server.h"
#include "runtime/rpc/join.h"
#include "runtime/rpc/status_json.h"

namespace rayo::head {

namespace {

constexpr int kJoinThreads = 4;              // a join, or a driver that asks, blocks one for milliseconds, 2 s at most
constexpr base::Duration kLeaveWithin = 2s;  // for calls that are being served at the end
constexpr base::Duration kTellOfStrangersEach = 10s;  // anybody may knock as often as they like: the log has a bound

int exit_code_of(const base::Status& error) {
  return error.code() == absl::StatusCode::kInvalidArgument || error.code() == absl::StatusCode::kNotFound ? 2 : 1;
}

}  // namespace

struct HeadProcess::Parts {
  Parts(base::Loop& loop, Foundation its_foundation, const base::HeadSettings& settings)
      : foundation(std::move(its_foundation)),
        core(foundation, loop.clock()),
        service(core, settings.state_dir / "packages", [this] { stop_asked.set(); }) {}

  Foundation foundation;
  Core core;
  base::Event stop_asked;
  HeadService service;
  base::WorkThreads joins{"join", kJoinThreads};
  std::unique_ptr<rpc::Port> port;
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<rpc::LocalPort> control;
  bool probing = false;
  int64_t strangers = 0;  // who knocked and was not let in
  base::TimePoint strangers_told_at = base::TimePoint() - kTellOfStrangersEach;
  base::TaskGroup fibers;
  base::TaskGroup committing;  // ends last: what the others decided is still written

  base::Status open(base::Loop& loop, const base::HeadSettings& settings);
  base::Status open_http(base::Loop& loop, const base::HeadSettings& settings);
  void serve_data(base::Fd fd, rpc::DataHeaderBytes bytes);
  void serve_joiner(base::Fd fd, const rpc::DataHeader& header);
  void serve_driver(base::Fd fd, const rpc::DataHeader& header);
  void turned_away(std::string_view why);
  void run(base::Loop& loop, int owner);
  void keep_time(base::Loop& loop);
  void close(base::Loop& loop);
};

base::Status HeadProcess::Parts::open(base::Loop& loop, const base::HeadSettings& settings) {
  RAYO_RETURN_IF_ERROR(service.prepare());
  RAYO_ASSIGN_OR_RETURN(port, rpc::Port::open(loop, settings.bind));
  RAYO_RETURN_IF_ERROR(open_http(loop, settings));
  core.address = port->address();
  core.http = http->url();
  rpc::Service methods;
  service.bind(methods);
  server = std::make_unique<rpc::Server>(
      loop, methods, rpc::ServerOptions{.identity = foundation.identity, .cluster = foundation.id()});
  RAYO_RETURN_IF_ERROR(server->start());
  base::HeadFiles files{settings.session_dir / "head"};
  RAYO_ASSIGN_OR_RETURN(control, rpc::LocalPort::open(loop, files.control_socket(),
                                                      [this](base::Fd fd) { server->accept_local(std::move(fd)); }));
  port->serve({.tls = [this](base::Fd fd) { server->accept_tls(std::move(fd)); },
               .data = [this](base::Fd fd, rpc::DataHeaderBytes bytes) { serve_data(std::move(fd), bytes); }});
  return base::write_pid_file(files.head_pid(), ::getpid());
}

base::Status HeadProcess::Parts::open_http(base::Loop& loop, const base::HeadSettings& settings) {
  HttpServer::Options options{.bind = {.host = settings.bind.host,
                                       .port = settings.http_port,
                                       .port_fixed = settings.http_port_fixed,
                                       .advertise = settings.bind.advertise},
                              .local = settings.local,
                              .token_secret = foundation.desk.token_secret,
                              .status = [this] { return rpc::status_json(core.status()); }};
  if (!settings.local) {
    RAYO_ASSIGN_OR_RETURN(
        options.identity,
        rpc::issue_server_identity(foundation.desk.authority, HttpServer::names(options.bind), loop.clock().wall()));
  }
  RAYO_ASSIGN_OR_RETURN(http, HttpServer::open(loop, std::move(options)));
  return {};
}

// Joins, and drivers that ask where to go; a stranger is told nothing.
void HeadProcess::Parts::serve_data(base::Fd fd, rpc::DataHeaderBytes bytes) {
  auto header = rpc::parse_data_header(bytes);
  if (header && header->kind == rpc::LinkKind::kJoin) serve_joiner(std::move(fd), *header);
  if (header && header->kind == rpc::LinkKind::kDriver) serve_driver(std::move(fd), *header);
}

void HeadProcess::Parts::serve_joiner(base::Fd fd, const rpc::DataHeader& header) {
  if (!rpc::verify(header, rpc::LinkKeys::of_join(foundation.desk.token_secret))) {
    return turned_away("a join with a wrong token was cut");
  }
  auto joined = base::run_on_thread(joins, [&] { return rpc::serve_join(std::move(fd), header, foundation.desk); });
  if (joined.ok()) {
    base::log().info("{} has joined", joined->uri());
  } else {
    turned_away(base::cat("a join failed: ", base::message(joined.status())));
  }
}

void HeadProcess::Parts::serve_driver(base::Fd fd, const rpc::DataHeader& header) {
  const rpc::Secret& secret = foundation.desk.data_secret;
  if (!rpc::verify(header, rpc::LinkKeys::of_data(secret))) {
    return turned_away("a driver with a wrong token was cut");
  }
  auto served = base::run_on_thread(joins, [&, answer = driver_answer(core.state)] {
    return head::serve_driver(std::move(fd), header, secret, answer);
  });
  if (!served.ok()) turned_away(base::cat("a driver was not told where to go: ", base::message(served)));
}

void HeadProcess::Parts::turned_away(std::string_view why) {
  ++strangers;
  const base::TimePoint now = base::current_loop()->now();
  if (now < strangers_told_at + kTellOfStrangersEach) return;
  strangers_told_at = now;
  base::log().warn("{} ({} were turned away so far)", why, strangers);
}

void HeadProcess::Parts::run(base::Loop& loop, int owner) {
  committing.spawn("commit-line", [this] { core.line.run(); });
  fibers.spawn("http", [this] { http->run(); });
  fibers.spawn("time", [this, &loop] { keep_time(loop); });
  if (owner > 0) {
    fibers.spawn("owner", [this, &loop, owner] {
      base::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, owner, 0)));
      if (pidfd && base::wait_readable(loop, pidfd.get(), base::kForever).code() == absl::StatusCode::kCancelled)
        return;
      base::log().info("the program that owns this cluster has ended");
      stop_asked.set();
    });
  }
}

void HeadProcess::Parts::keep_time(base::Loop& loop) {
  const auto span = [&] {
    if (!core.state.queue.empty()) return kTick;
    return std::clamp<base::Duration>(core.state.nodes.due() - loop.now(), 10ms, kIdleTick);
  };
  while (base::sleep_for(span())) {
    Outcome out;
    core.nodes.tick(out);
    core.line.submit(std::move(out));
    if (probing || !core.state.nodes.any_suspect()) continue;
    probing = true;
    fibers.spawn("prober", [this, &loop] {
      probe_suspects(loop, core);
      probing = false;
    });
  }
}

void HeadProcess::Parts::close(base::Loop& loop) {
  base::Shield shield;
  port->close();
  control->close();
  http->close();
  server->shutdown(loop.deadline(kLeaveWithin));
  fibers.cancel();
  fibers.join();
  committing.cancel();
  committing.join();
}

HeadProcess::HeadProcess(base::Loop& loop, base::HeadSettings settings) : loop_(loop), settings_(std::move(settings)) {}
HeadProcess::~HeadProcess() = default;

base::Readiness HeadProcess::start() {
  auto failed = [&](const base::Status& error) {
    base::log().error("cannot start: {}", base::message(error));
    return base::Readiness{.exit_code = exit_code_of(error),
                           .error = std::string(base::message(error)),
                           .next_step = base::next_step(error)};
  };
  auto foundation = lay_foundation(settings_, loop_.clock());
  if (!foundation.ok()) return failed(foundation.status());
  parts_ = std::make_unique<Parts>(loop_, *std::move(foundation), settings_);
  if (auto opened = parts_->open(loop_, settings_); !opened.ok()) {
    if (parts_->server) parts_->server->shutdown(loop_.deadline(kLeaveWithin));
    parts_.reset();
    return failed(opened);
  }
  parts_->run(loop_, settings_.owner_pid);
  base::Readiness ready{.ok = true,
                        .address = parts_->core.address,
                        .listen = settings_.bind.advertise.empty()
                                      ? std::string()
                                      : base::HostPort{settings_.bind.host, parts_->port->port()}.text(),
                        .http = parts_->core.http,
                        .cluster = parts_->foundation.id().hex(),
                        .cluster_name = parts_->foundation.cluster.name(),
                        .notes = parts_->port->notes()};
  ready.notes.insert(ready.notes.end(), parts_->http->notes().begin(), parts_->http->notes().end());
  base::log().info("head of cluster {} ({}) on {}, {}", ready.cluster_name, ready.cluster, ready.address, ready.http);
  return ready;
}

void HeadProcess::serve() {
  if (!parts_) return;
  parts_->stop_asked.wait();
  base::log().info("ending");
  parts_->close(loop_);
  parts_.reset();
}

void HeadProcess::ask_stop() {
  if (parts_) parts_->stop_asked.set();
}

}  // namespace rayo::head
