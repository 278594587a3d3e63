// If these fail, somebody without the cluster's key reads or writes what nodes say to each other, or a broken
// peer breaks us.
#include "runtime/rpc/tls_pump.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <random>

#include "runtime/base/clock.h"
#include "runtime/rpc/certificates.h"
#include "runtime/rpc/openssl_handles.h"

namespace rayo::rpc {
namespace {

// One flight from one side to the other, in pieces of `piece` bytes.
base::Status carry(TlsPump& from, TlsPump& to, size_t piece = SIZE_MAX) {
  base::Status status;
  while (!from.pending_ciphertext().empty() && status.ok()) {
    std::string bytes(from.pending_ciphertext().substr(0, piece));
    from.sent(bytes.size());
    status = to.feed(bytes);
  }
  return status;
}

struct Pair {
  explicit Pair(const Secret& key = random_secret()) : client(TlsPump::client(key)), server(TlsPump::server(key)) {}
  bool shake_hands(size_t piece = SIZE_MAX) {
    for (int flight = 0; flight < 4; ++flight)
      if (!carry(client, server, piece).ok() || !carry(server, client, piece).ok()) return false;
    return client.handshake_done() && server.handshake_done();
  }
  TlsPump client, server;
};

std::string take(TlsPump& pump) {
  std::string text(pump.plaintext());
  pump.consume(text.size());
  return text;
}

TEST(TlsPump, CarriesBothWays) {
  Pair pair;
  ASSERT_TRUE(pair.shake_hands());
  ASSERT_TRUE(pair.client.write("hello").ok());
  ASSERT_TRUE(pair.server.write("and back").ok());
  EXPECT_EQ(pair.client.pending_ciphertext().find("hello"), std::string_view::npos);
  ASSERT_TRUE(carry(pair.client, pair.server).ok());
  ASSERT_TRUE(carry(pair.server, pair.client).ok());
  EXPECT_EQ(take(pair.server), "hello");
  EXPECT_EQ(take(pair.client), "and back");
}

TEST(TlsPump, ByteByByteIsTheSame) {
  Pair pair;
  ASSERT_TRUE(pair.client.write("before the handshake").ok());
  ASSERT_TRUE(pair.shake_hands(1));
  ASSERT_TRUE(carry(pair.client, pair.server, 1).ok());
  EXPECT_EQ(take(pair.server), "before the handshake");
}

TEST(TlsPump, AMovedPumpGoesOn) {
  Pair pair;
  ASSERT_TRUE(carry(pair.client, pair.server).ok());
  TlsPump client(std::move(pair.client)), server = TlsPump::server(random_secret());
  server = std::move(pair.server);
  ASSERT_TRUE(carry(server, client).ok());
  ASSERT_TRUE(carry(client, server).ok());
  EXPECT_TRUE(client.handshake_done() && server.handshake_done());
}

TEST(TlsPump, LargeMessagesArriveWhole) {
  Pair pair;
  ASSERT_TRUE(pair.shake_hands());
  std::string sent(5'000'003, '\0');
  std::mt19937 random(7);
  for (char& c : sent) c = static_cast<char>(random());
  ASSERT_TRUE(pair.client.write(sent).ok());
  ASSERT_TRUE(carry(pair.client, pair.server, 65'537).ok());
  EXPECT_TRUE(take(pair.server) == sent);
}

TEST(TlsPump, AnotherKeyIsRefusedByTheServer) {
  TlsPump client = TlsPump::client(random_secret()), server = TlsPump::server(random_secret());
  base::Status status = carry(client, server);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << base::message(status);
  EXPECT_FALSE(server.handshake_done());
  EXPECT_FALSE(client.handshake_done());
  EXPECT_EQ(server.feed("more").code(), absl::StatusCode::kPermissionDenied) << "a broken pump stays broken";
  EXPECT_EQ(server.write("x").code(), absl::StatusCode::kPermissionDenied);
}

// A TLS 1.3 peer as anyone can write one, without our pump: takes any certificate or offers its own.
class StrangePeer {
 public:
  StrangePeer(bool is_server, bool with_certificate)
      : context_(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method())) {
    if (with_certificate) {
      auto authority = make_authority(ClusterId{1, 2}, base::system_clock().wall());
      BioHandle certificate = bio_over(authority->certificate_pem), key = bio_over(authority->key_pem);
      CertificateHandle x509(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr));
      KeyHandle pkey(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
      SSL_CTX_use_certificate(context_.get(), x509.get());
      SSL_CTX_use_PrivateKey(context_.get(), pkey.get());
    }
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_NONE, nullptr);
    ssl_.reset(SSL_new(context_.get()));
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), in_, out_);
    is_server ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
  }

  // Gives it what the pump sent and the pump what it answers.
  base::Status meet(TlsPump& pump) {
    BIO_write(in_, pump.pending_ciphertext().data(), static_cast<int>(pump.pending_ciphertext().size()));
    pump.sent(pump.pending_ciphertext().size());
    SSL_do_handshake(ssl_.get());
    ERR_clear_error();
    std::string answer = bio_text(out_);
    (void)BIO_reset(out_);
    return pump.feed(answer);
  }

 private:
  Handle<SSL_CTX, SSL_CTX_free> context_;
  Handle<SSL, SSL_free> ssl_;
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
};

TEST(TlsPump, AServerWithAnyCertificateIsRefused) {
  TlsPump client = TlsPump::client(random_secret());
  ASSERT_TRUE(client.write("a secret for nodes alone").ok());
  StrangePeer impostor(true, true);
  base::Status status;
  for (int flight = 0; flight < 3 && status.ok(); ++flight) status = impostor.meet(client);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << base::message(status);
  EXPECT_FALSE(client.handshake_done());
}

TEST(TlsPump, AClientWithoutTheKeyIsRefused) {
  TlsPump server = TlsPump::server(random_secret());
  StrangePeer stranger(false, true);
  (void)stranger.meet(server);
  base::Status status = stranger.meet(server);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << base::message(status);
  EXPECT_FALSE(server.handshake_done());
}

TEST(TlsPump, RandomBytesAreAnErrorAndNeverMore) {
  std::mt19937 random(3);
  for (int life = 0; life < 300; ++life) {
    TlsPump pump = life % 2 ? TlsPump::server(random_secret()) : TlsPump::client(random_secret());
    std::string bytes(20'000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (life % 3 == 0) bytes.replace(0, 5, std::string_view("\x16\x03\x01\x10\x00", 5));
    EXPECT_EQ(pump.feed(bytes).code(), absl::StatusCode::kPermissionDenied) << "life " << life;
    EXPECT_FALSE(pump.handshake_done());
  }
}

TEST(TlsPump, EveryTamperedByteOfARecordIsSeen) {
  for (size_t at = 0; at < 40; ++at) {
    Pair pair;
    ASSERT_TRUE(pair.shake_hands());
    ASSERT_TRUE(pair.client.write("twelve bytes").ok());
    std::string record(pair.client.pending_ciphertext());
    if (at >= record.size()) break;
    record[at] ^= 0x10;
    base::Status status = pair.server.feed(record);
    EXPECT_EQ(take(pair.server), "") << "byte " << at;
    bool is_length = at == 3 || at == 4;  // a longer record is only one that has not come yet
    EXPECT_TRUE(is_length || status.code() == absl::StatusCode::kDataLoss) << "byte " << at;
  }
}

TEST(TlsPump, ARecordShownTwiceIsDamage) {
  Pair pair;
  ASSERT_TRUE(pair.shake_hands());
  ASSERT_TRUE(pair.client.write("pay 5").ok());
  std::string record(pair.client.pending_ciphertext());
  ASSERT_TRUE(pair.server.feed(record).ok());
  EXPECT_EQ(pair.server.feed(record).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(take(pair.server), "pay 5");
}

TEST(TlsPump, AFarewellDiffersFromACutStream) {
  Pair pair;
  ASSERT_TRUE(pair.shake_hands());
  ASSERT_TRUE(pair.client.write("last words").ok());
  pair.client.close();
  std::string bytes(pair.client.pending_ciphertext());
  ASSERT_TRUE(pair.server.feed(bytes.substr(0, bytes.size() - 1)).ok());
  EXPECT_EQ(take(pair.server), "last words");
  EXPECT_FALSE(pair.server.peer_closed()) << "cut here, it is a cut stream";
  ASSERT_TRUE(pair.server.feed(bytes.substr(bytes.size() - 1)).ok());
  EXPECT_TRUE(pair.server.peer_closed());
  EXPECT_TRUE(pair.server.write("still sending").ok());
  ASSERT_TRUE(carry(pair.server, pair.client).ok());
  EXPECT_EQ(take(pair.client), "still sending");
}

TEST(TlsPump, MovesTheBulkOfObjects) {
  Pair pair;
  ASSERT_TRUE(pair.shake_hands());
  const std::string piece(256 << 10, 'x');
  constexpr int kPieces = 1024;
  size_t arrived = 0;
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kPieces; ++i) {
    ASSERT_TRUE(pair.client.write(piece).ok());
    ASSERT_TRUE(pair.server.feed(pair.client.pending_ciphertext()).ok());
    pair.client.sent(pair.client.pending_ciphertext().size());
    arrived += pair.server.plaintext().size();
    pair.server.consume(pair.server.plaintext().size());
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_EQ(arrived, kPieces * piece.size());
  RecordProperty("megabytes_per_second", static_cast<int>(static_cast<double>(arrived) / seconds / 1e6));
  std::printf("both sides on one core: %.2f GB/s\n", static_cast<double>(arrived) / seconds / 1e9);
}

}  // namespace
}  // namespace rayo::rpc
