// What llm_bench asks: an OpenAI server as a child process, spoken to over HTTP as a client of it would.
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "bench/harness.h"

namespace rayo::bench {

// Of one answer: when each of its pieces came, in seconds since the request was sent. A piece is a token, or none or
// several where they share a character.
using Arrivals = std::vector<double>;

struct Ask {
  std::vector<int> prompt;  // tokens
  int answer = 1;           // tokens
};

// One kept-alive connection.
class Connection {
 public:
  explicit Connection(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    open_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool open() const { return open_; }

  // The status; 0: no answer. `connection: close` in the answer is not looked at: it is for one question.
  int get(const std::string& path) {
    send_all("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    std::string text;
    while (text.find("\r\n\r\n") == std::string::npos) {
      if (!more(text)) return 0;
    }
    return text.size() > 12 ? std::stoi(text.substr(9, 3)) : 0;
  }
  // Until the server closes: head and body.
  std::string page(const std::string& path) {
    send_all("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    std::string text;
    while (more(text)) {
    }
    return text;
  }

  void send(const Ask& ask) {
    std::string body = "{\"model\":\"bench\",\"stream\":true,\"temperature\":0,\"ignore_eos\":true,\"max_tokens\":" +
                       std::to_string(ask.answer) + ",\"prompt\":[";
    for (size_t i = 0; i < ask.prompt.size(); ++i) body += (i == 0 ? "" : ",") + std::to_string(ask.prompt[i]);
    body += "]}";
    send_all("POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
             std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  Arrivals complete(const Ask& ask) {
    const auto begin = std::chrono::steady_clock::now();
    send(ask);
    return read_events(begin);
  }

 private:
  Arrivals read_events(std::chrono::steady_clock::time_point begin) {
    Arrivals arrivals;
    std::string text;
    size_t seen = 0;
    while (!text.ends_with("\r\n0\r\n\r\n")) {
      if (!more(text)) throw std::runtime_error("a stream broke off: " + text.substr(0, 300));
      const double now = seconds_since(begin);
      for (size_t end; (end = text.find("\n\n", seen)) != std::string::npos; seen = end + 2) {
        const std::string_view event = std::string_view(text).substr(seen, end - seen);
        if (event.find("\"text\":") != std::string_view::npos) arrivals.push_back(now);
        if (event.find("\"error\"") != event.npos) throw std::runtime_error(std::string(event));
      }
    }
    if (arrivals.empty()) throw std::runtime_error("no token came: " + text.substr(0, 300));
    return arrivals;
  }

  void send_all(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const ssize_t count = ::send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (count <= 0) throw std::runtime_error("a server closed its connection");
      at += static_cast<size_t>(count);
    }
  }
  bool more(std::string& text) {
    char buffer[65536];
    const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }

  int socket_;
  bool open_ = false;
};

// A server of a program of its own, which goes with this object.
class Server {
 public:
  // `arguments` without the port, which is the last one of its own. Ready when `ready_path` is answered with 200.
  Server(std::vector<std::string> arguments, const std::string& ready_path, std::string log) : log_(std::move(log)) {
    port_ = free_port();
    arguments.push_back(std::to_string(port_));
    const auto begin = std::chrono::steady_clock::now();
    start(arguments);
    while (!answers(ready_path)) {
      if (seconds_since(begin) > 60 || ::waitpid(child_, nullptr, WNOHANG) != 0)
        throw std::runtime_error(arguments[0] + " does not get ready: see " + log_);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ready_s_ = seconds_since(begin);
  }
  ~Server() {
    ::kill(child_, SIGTERM);
    for (int i = 0; i < 100 && ::waitpid(child_, nullptr, WNOHANG) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  double ready_s() const { return ready_s_; }
  uint16_t port() const { return port_; }
  pid_t pid() const { return child_; }

 private:
  static uint16_t free_port() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    ::bind(socket, reinterpret_cast<sockaddr*>(&any), size);
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&any), &size);
    ::close(socket);
    return ntohs(any.sin_port);
  }
  void start(const std::vector<std::string>& arguments) {
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    child_ = ::fork();
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int log = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  bool answers(const std::string& path) const {
    Connection connection(port_);
    return connection.open() && connection.get(path) == 200;
  }

  std::string log_;
  pid_t child_ = -1;
  uint16_t port_ = 0;
  double ready_s_ = 0;
};

}  // namespace rayo::bench
