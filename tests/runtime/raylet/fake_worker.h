// A worker's and a driver's side of the raylet's socket, as little of it as the raylet's tests need:
// blocking, one thread.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "runtime/base/fd.h"
#include "runtime/base/ids.h"
#include "runtime/base/version.h"
#include "runtime/proto/worker.pb.h"
#include "runtime/rpc/doorbell.h"
#include "runtime/rpc/frame.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {

class FakeProcess {
 public:
  FakeProcess(base::Fd socket, ProcessId id, proto::ProcessKind kind)
      : id(id), socket_(std::move(socket)), kind_(kind) {}

  // Hello and its reply.
  std::optional<proto::HelloReply> hello(const std::vector<std::string>& environment = {}) {
    proto::ToRaylet message;
    auto& hello = *message.mutable_hello();
    hello.set_version(std::string(base::kVersion));
    hello.set_kind(kind_);
    rpc::to_proto(id, hello.mutable_process());
    hello.set_pid(getpid());
    hello.set_program("fake");
    hello.add_arguments("fake");
    hello.set_threads(1);
    for (const auto& variable : environment) hello.add_environment(variable);
    std::vector<int> fds;
    if (kind_ != proto::ZYGOTE) {
      auto made = rpc::Doorbell::create();
      if (!made.ok()) return std::nullopt;
      bell.emplace(std::move(*made));
      fds = {bell->page_fd(), bell->main_fd(), bell->service_fd()};
    }
    send(1, message, fds);
    auto reply = receive();
    if (!reply || !reply->message.has_hello_reply()) return std::nullopt;
    return reply->message.hello_reply();
  }

  void send(uint64_t call_id, const proto::ToRaylet& message, const std::vector<int>& fds = {}) {
    rpc::FrameHeader header;
    header.call_id = call_id;
    header.sequence = fds.size();
    header.length = static_cast<uint32_t>(message.ByteSizeLong());
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    message.AppendToString(&bytes);
    iovec part{bytes.data(), bytes.size()};
    msghdr out{};
    out.msg_iov = &part;
    out.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
    if (!fds.empty()) {
      out.msg_control = control;
      out.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* first = CMSG_FIRSTHDR(&out);
      first->cmsg_level = SOL_SOCKET;
      first->cmsg_type = SCM_RIGHTS;
      first->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(first), fds.data(), fds.size() * sizeof(int));
    }
    ssize_t sent = ::sendmsg(socket_.get(), &out, MSG_NOSIGNAL);
    while (sent >= 0 && static_cast<size_t>(sent) < bytes.size()) {
      ssize_t more = ::send(socket_.get(), bytes.data() + sent, bytes.size() - static_cast<size_t>(sent), MSG_NOSIGNAL);
      if (more < 0) return;
      sent += more;
    }
  }

  struct Received {
    uint64_t call_id = 0;
    proto::ToWorker message;
    std::vector<base::Fd> fds;
  };
  // nullopt: the raylet closed.
  std::optional<Received> receive() {
    Received out;
    rpc::FrameHeader header;
    if (!read_all(reinterpret_cast<char*>(&header), sizeof header, out.fds) || !rpc::check_header(header))
      return std::nullopt;
    std::string body(header.length, '\0');
    if (!read_all(body.data(), body.size(), out.fds)) return std::nullopt;
    out.call_id = header.call_id;
    if (!out.message.ParseFromString(body)) return std::nullopt;
    return out;
  }
  int fd() const { return socket_.get(); }

  ProcessId id;
  std::optional<rpc::Doorbell> bell;

 private:
  bool read_all(char* at, size_t bytes, std::vector<base::Fd>& fds) {
    while (bytes > 0) {
      iovec part{at, bytes};
      msghdr in{};
      in.msg_iov = &part;
      in.msg_iovlen = 1;
      alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))];
      in.msg_control = control;
      in.msg_controllen = sizeof control;
      ssize_t got = ::recvmsg(socket_.get(), &in, MSG_CMSG_CLOEXEC);
      if (got <= 0) return false;
      for (cmsghdr* c = CMSG_FIRSTHDR(&in); c; c = CMSG_NXTHDR(&in, c)) {
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
          int fd;
          std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
          fds.emplace_back(fd);
        }
      }
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }

  base::Fd socket_;
  proto::ProcessKind kind_;
};

}  // namespace rayo::raylet
