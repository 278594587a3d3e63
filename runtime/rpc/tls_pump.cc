#include "runtime/rpc/tls_pump.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/text.h"
#include "runtime/rpc/flat_buffer.h"
#include "runtime/rpc/openssl_handles.h"

namespace rayo::rpc {
namespace {

using ContextHandle = Handle<SSL_CTX, SSL_CTX_free>;
using SslHandle = Handle<SSL, SSL_free>;
using SessionHandle = Handle<SSL_SESSION, SSL_SESSION_free>;

constexpr uint8_t kIdentity[] = {'r', 'a', 'y', 'o'};  // one key a connection: its name says nothing
constexpr uint8_t kSuite[] = {0x13, 0x01};             // TLS_AES_128_GCM_SHA256
constexpr size_t kRecord = 16 << 10;                   // the most that one TLS record holds

std::string_view view(const FlatBuffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.bytes().data()), buffer.size()};
}

}  // namespace

struct TlsPump::State {
  Secret key;
  bool is_client;
  std::string_view input;  // of the feed() that runs
  FlatBuffer output;
  FlatBuffer plain;
  FlatBuffer early;  // written before the handshake was done
  SslHandle ssl;
  base::Status broken;
  bool done = false, peer_closed = false, closed = false;

  base::Status progress();
  base::Status handshake();
  base::Status decrypt();
  base::Status encrypt(std::string_view plaintext);
  base::Status fail(absl::StatusCode code, std::string_view what);
};

namespace {

int read_input(BIO* bio, char* out, int size) {
  auto* state = static_cast<TlsPump::State*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (state->input.empty()) {
    BIO_set_retry_read(bio);
    return -1;
  }
  size_t bytes = std::min(state->input.size(), static_cast<size_t>(size));
  std::memcpy(out, state->input.data(), bytes);
  state->input.remove_prefix(bytes);
  return static_cast<int>(bytes);
}

int write_output(BIO* bio, const char* data, int size) {
  auto* state = static_cast<TlsPump::State*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  state->output.append(data, static_cast<size_t>(size));
  return size;
}

long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* pump_bio() {
  static const BIO_METHOD* method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rayo pump");
    RAYO_CHECK(made != nullptr, "only a lack of memory fails here");
    BIO_meth_set_read(made, read_input);
    BIO_meth_set_write(made, write_output);
    BIO_meth_set_ctrl(made, control);
    return made;
  }();
  return method;
}

SessionHandle session_with_key(SSL* ssl) {
  auto* state = static_cast<TlsPump::State*>(SSL_get_app_data(ssl));
  SessionHandle session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kSuite);
  if (!session || !cipher || !SSL_SESSION_set1_master_key(session.get(), state->key.data(), state->key.size()) ||
      !SSL_SESSION_set_cipher(session.get(), cipher) ||
      !SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION))
    return nullptr;
  return session;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* size, SSL_SESSION** out) {
  SessionHandle session = session_with_key(ssl);
  if (!session) return 0;
  *identity = kIdentity;
  *size = sizeof kIdentity;
  *out = session.release();
  return 1;
}

int find_key(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** out) {
  *out = nullptr;
  if (size != sizeof kIdentity || std::memcmp(identity, kIdentity, size) != 0) return 1;  // unknown: no such key
  *out = session_with_key(ssl).release();
  return *out != nullptr;
}

// One of each side for the process: making one takes longer than a handshake.
SSL_CTX* context_of(bool is_client) {
  auto make = [](bool client) {
    ContextHandle context(SSL_CTX_new(client ? TLS_client_method() : TLS_server_method()));
    RAYO_CHECK(context != nullptr, "only a lack of memory fails here");
    SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
    SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set1_groups_list(context.get(), "X25519:P-256");
    SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context.get(), 0);
    SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context.get(), 1);
    SSL_CTX_clear_options(context.get(), SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    if (client) {
      // No CA is loaded: whoever answers with a certificate instead of our key fails here.
      SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
      SSL_CTX_set_psk_use_session_callback(context.get(), offer_key);
    } else {
      SSL_CTX_set_psk_find_session_callback(context.get(), find_key);
    }
    return context;
  };
  static const ContextHandle client = make(true), server = make(false);
  return is_client ? client.get() : server.get();
}

}  // namespace

TlsPump TlsPump::client(const Secret& key) {
  auto state = std::make_unique<State>();
  state->key = key;
  state->is_client = true;
  TlsPump pump(std::move(state));
  (void)pump.feed({});  // puts the first flight into pending_ciphertext(); cannot fail before the peer has spoken
  return pump;
}

TlsPump TlsPump::server(const Secret& key) {
  auto state = std::make_unique<State>();
  state->key = key;
  state->is_client = false;
  return TlsPump(std::move(state));
}

TlsPump::TlsPump(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->ssl.reset(SSL_new(context_of(state_->is_client)));
  BioHandle bio(BIO_new(pump_bio()));
  RAYO_CHECK(state_->ssl && bio, "only a lack of memory fails here");
  BIO_set_data(bio.get(), state_.get());
  BIO_set_init(bio.get(), 1);
  SSL_set_app_data(state_->ssl.get(), state_.get());
  BIO* both = bio.release();
  SSL_set_bio(state_->ssl.get(), both, both);
  if (state_->is_client)
    SSL_set_connect_state(state_->ssl.get());
  else
    SSL_set_accept_state(state_->ssl.get());
}

TlsPump::TlsPump(TlsPump&&) noexcept = default;
TlsPump& TlsPump::operator=(TlsPump&&) noexcept = default;
TlsPump::~TlsPump() = default;

base::Status TlsPump::State::fail(absl::StatusCode code, std::string_view what) {
  broken = base::failed(code, what);
  return broken;
}

base::Status TlsPump::State::handshake() {
  ERR_clear_error();
  int result = SSL_do_handshake(ssl.get());
  if (result == 1) {
    // The check that no certificate can stand in for the key.
    if (!SSL_session_reused(ssl.get()))
      return fail(absl::StatusCode::kPermissionDenied, "the peer does not hold the cluster's key");
    done = true;
    OPENSSL_cleanse(key.data(), key.size());
    base::Status status = encrypt(view(early));
    early = FlatBuffer();
    return status;
  }
  int error = SSL_get_error(ssl.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {};
  return fail(absl::StatusCode::kPermissionDenied,
              base::cat("the TLS handshake failed (", openssl_error(), "): the peer does not hold the cluster's key"));
}

base::Status TlsPump::State::decrypt() {
  while (!peer_closed) {
    ERR_clear_error();
    size_t bytes = 0;
    int result = SSL_read_ex(ssl.get(), plain.prepare(kRecord), kRecord, &bytes);
    if (result == 1) {
      plain.commit(bytes);
      continue;
    }
    int error = SSL_get_error(ssl.get(), result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {};
    if (error == SSL_ERROR_ZERO_RETURN) {
      peer_closed = true;
      return {};
    }
    return fail(absl::StatusCode::kDataLoss, base::cat("the encrypted stream is damaged (", openssl_error(), ")"));
  }
  input = {};  // behind the farewell nothing counts
  return {};
}

base::Status TlsPump::State::progress() {
  if (!done) RAYO_RETURN_IF_ERROR(handshake());
  return done ? decrypt() : base::Status();
}

base::Status TlsPump::State::encrypt(std::string_view plaintext) {
  while (!plaintext.empty()) {
    ERR_clear_error();
    size_t bytes = 0;
    if (SSL_write_ex(ssl.get(), plaintext.data(), plaintext.size(), &bytes) != 1)
      return fail(absl::StatusCode::kDataLoss, base::cat("cannot encrypt (", openssl_error(), ")"));
    plaintext.remove_prefix(bytes);
  }
  return {};
}

base::Status TlsPump::feed(std::string_view ciphertext) {
  State& state = *state_;
  if (!state.broken.ok()) return state.broken;
  if (state.peer_closed) return {};
  state.input = ciphertext;
  base::Status status = state.progress();
  state.input = {};  // OpenSSL has taken all of it: it asks until there is no more
  return status;
}

base::Status TlsPump::write(std::string_view plaintext) {
  State& state = *state_;
  if (!state.broken.ok()) return state.broken;
  RAYO_CHECK(!state.closed, "nobody writes behind his own close()");
  if (state.done) return state.encrypt(plaintext);
  state.early.append(plaintext.data(), plaintext.size());
  return {};
}

std::string_view TlsPump::plaintext() const { return view(state_->plain); }
void TlsPump::consume(size_t bytes) { state_->plain.consume(bytes); }
std::string_view TlsPump::pending_ciphertext() const { return view(state_->output); }
void TlsPump::sent(size_t bytes) { state_->output.consume(bytes); }
bool TlsPump::handshake_done() const { return state_->done; }
bool TlsPump::peer_closed() const { return state_->peer_closed; }

void TlsPump::close() {
  State& state = *state_;
  if (state.closed) return;
  state.closed = true;
  ERR_clear_error();
  if (state.done && state.broken.ok()) SSL_shutdown(state.ssl.get());
}

}  // namespace rayo::rpc
