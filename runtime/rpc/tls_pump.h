// TLS 1.3 with a pre-shared key as a machine of bytes: no socket, no thread, no clock.
//
//   TlsPump pump = TlsPump::client(keys.tls_key(header.nonce));
//   loop: send(pump.pending_ciphertext()); pump.sent(n);
//         pump.feed(received);              // an error ends the connection; say nothing more to such a peer
//         use(pump.plaintext()); pump.consume(n);
//
// Only TLS_AES_128_GCM_SHA256 with an ephemeral key exchange and this pre-shared key is spoken: a peer with
// another key, or with any certificate, is refused. write() may be called before the handshake is done: it is
// queued. Feed pieces of up to 256 KiB: what is decrypted is at most what was fed. The caller bounds what it
// writes by looking at pending_ciphertext().
//
// Views last until the next call on the same pump. One thread at a time.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/rpc/token.h"

namespace rayo::rpc {

class TlsPump {
 public:
  static TlsPump client(const Secret& key);
  static TlsPump server(const Secret& key);
  TlsPump(TlsPump&&) noexcept;
  TlsPump& operator=(TlsPump&&) noexcept;
  ~TlsPump();

  // Takes all of what came from the peer. PermissionDenied: the peer does not hold the key (or speaks no
  // TLS); DataLoss: the stream was tampered with or cut after the handshake. Every later call fails the same
  // way.
  base::Status feed(std::string_view ciphertext);
  // Encrypts, or queues before the handshake is done.
  base::Status write(std::string_view plaintext);

  std::string_view plaintext() const;
  void consume(size_t bytes);
  std::string_view pending_ciphertext() const;
  void sent(size_t bytes);

  bool handshake_done() const;
  // Says farewell (close_notify becomes pending); nothing may be written afterwards.
  void close();
  // The peer has said farewell. An end of the socket without it is a cut stream.
  bool peer_closed() const;

  struct State;  // known to the .cc file alone

 private:
  explicit TlsPump(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rayo::rpc
