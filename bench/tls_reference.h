// What TLS between nodes is measured against: OpenSSL alone over a blocking TCP socket, TLS 1.3 with the suite that
// Rayo speaks (a pre-shared key, AES-128-GCM).
#pragma once

#include <openssl/ssl.h>

#include "bench/references.h"

namespace rayo::bench {

class TlsEnd {
 public:
  TlsEnd(int fd, bool server) : fd_(fd), context_(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method())) {
    SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context_, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_num_tickets(context_, 0);
    SSL_CTX_set_read_ahead(context_, 1);
    SSL_CTX_set_psk_client_callback(
        context_, [](SSL*, const char*, char* identity, unsigned, unsigned char* key, unsigned) -> unsigned {
          std::strcpy(identity, "bench");
          return fill(key);
        });
    SSL_CTX_set_psk_server_callback(
        context_, [](SSL*, const char*, unsigned char* key, unsigned) -> unsigned { return fill(key); });
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd_);
    if ((server ? SSL_accept(ssl_) : SSL_connect(ssl_)) != 1) std::abort();
  }
  ~TlsEnd() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ::close(fd_);
  }
  TlsEnd(const TlsEnd&) = delete;
  ssize_t read(void* to, size_t room) { return SSL_read(ssl_, to, static_cast<int>(room)); }
  ssize_t write(const void* from, size_t size) { return SSL_write(ssl_, from, static_cast<int>(size)); }

 private:
  static unsigned fill(unsigned char* key) {
    std::memset(key, 7, 32);
    return 32;
  }
  int fd_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
};

using TlsEcho = StreamEcho<TlsEnd>;

}  // namespace rayo::bench
