// The head's HTTP port, on loopback: /healthz and /api/status. Every connection is a fiber; a request's headers are cut
// at 16 KiB and 10 s, and only a Host that means this machine is answered (a page in a browser cannot reach it by a
// name of its own).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/loop/event.h"
#include "runtime/base/loop/loop.h"
#include "runtime/base/loop/socket.h"

namespace rayo::head {

class HttpServer {
 public:
  struct Options {
    int port = 8265;
    bool port_fixed = false;
    std::function<std::string()> status;  // the document of /api/status
  };

  // AlreadyExists: the port was asked for by number and is taken, by whom.
  static base::StatusOr<std::unique_ptr<HttpServer>> open(base::Loop& loop, Options options);
  // In a fiber, until cancelled or closed.
  void run();
  void close() { acceptor_.close(); }

  std::string url() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  HttpServer(base::Loop& loop, Options options, base::Fd listening, int port, std::vector<std::string> notes);
  void serve(base::Fd fd);

  base::Loop& loop_;
  Options options_;
  base::Acceptor acceptor_;
  int port_;
  std::vector<std::string> notes_;
  base::TaskGroup connections_;
};

}  // namespace rayo::head
