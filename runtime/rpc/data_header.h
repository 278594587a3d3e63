// The first 64 bytes of every connection of ours between machines, in clear; docs/wire.md has the table.
//
//   acceptor: peek; 0x16 is TLS and goes to gRPC; 'R' is ours: read exactly 64, parse, choose the keys by kind, verify.
//
//     auto header = parse_data_header(bytes);                       // not ours: close, say nothing
//     if (!verify(*header, header->kind == LinkKind::kJoin ? join_keys : data_keys)) close;
//     if (!nonces.admit(header->nonce, clock.now())) close;
//
// Whoever fails is told nothing. The nonce cache refuses a replayed header: without TLS it would be as good as the first,
// with TLS it would still cost a handshake that fails. Values and one class without I/O; no thread of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>

#include "runtime/base/clock.h"
#include "runtime/rpc/token.h"

namespace rayo::rpc {

constexpr size_t kDataHeaderBytes = 64;
constexpr uint8_t kTlsFirstByte = 0x16;  // a TLS handshake record: gRPC's
constexpr std::array<uint8_t, 4> kDataMagic = {'R', 'A', 'Y', 'O'};
constexpr uint8_t kDataHeaderVersion = 1;
// Of an acceptor's patience, from the 65th byte on: the whole handshake, however its bytes come.
constexpr base::Duration kHandshakeLimit = std::chrono::seconds(2);

enum class LinkKind : uint8_t {
  kJoin = 1,    // a machine that holds the token; keys of_join, TLS always (join.h)
  kCall = 2,    // process to process: the raylet hands the socket to `target`
  kData = 3,    // raylet to raylet: object chunks
  kDriver = 4,  // a remote driver to the raylet; TLS always
};

struct DataHeader {
  LinkKind kind = LinkKind::kCall;
  bool tls = true;                   // TLS 1.3 with the pre-shared key follows (tls_pump.h)
  std::array<uint8_t, 16> target{};  // the process asked for, as id_bytes(); zero: the daemon that listens
  Nonce nonce{};
  std::array<uint8_t, 24> tag{};  // HMAC-SHA-256 over the first 40 bytes, cut to 24
};

using DataHeaderBytes = std::array<uint8_t, kDataHeaderBytes>;

// The wire form of an id: high, then low, little-endian; and back.
template <class IdType>
std::array<uint8_t, 16> id_bytes(const IdType& id) {
  std::array<uint8_t, 16> bytes{};
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<uint8_t>(id.high >> (8 * i));
    bytes[8 + i] = static_cast<uint8_t>(id.low >> (8 * i));
  }
  return bytes;
}
template <class IdType>
IdType id_from_bytes(const std::array<uint8_t, 16>& bytes) {
  IdType id;
  for (size_t i = 0; i < 8; ++i) {
    id.high |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    id.low |= static_cast<uint64_t>(bytes[8 + i]) << (8 * i);
  }
  return id;
}

// A header with a fresh nonce, signed.
DataHeader make_data_header(LinkKind kind, bool tls, const std::array<uint8_t, 16>& target, const LinkKeys& keys);
DataHeaderBytes encode(const DataHeader& header);

// Form only; nullopt for other magic, version or kind, unknown flags, a reserved byte that is not zero, and
// for a join or driver without TLS.
std::optional<DataHeader> parse_data_header(std::span<const uint8_t, kDataHeaderBytes> bytes);
// Compares in constant time.
bool verify(const DataHeader& header, const LinkKeys& keys);

// Nonces seen, against replay of a header: each is refused for `keep` after it was first seen.
// Only verified headers may be shown to it, so a stranger cannot fill it. At its byte budget the older half
// is forgotten.
class NonceCache {
 public:
  static constexpr size_t kDefaultBudget = size_t{2} << 20;  // bytes: 2 x 16 k nonces of about 64 bytes
  explicit NonceCache(size_t budget_bytes = kDefaultBudget, base::Duration keep = std::chrono::minutes(10));

  // False: seen before.
  bool admit(const Nonce& nonce, base::TimePoint now);
  size_t bytes() const;

 private:
  struct Hash {
    size_t operator()(const Nonce& nonce) const;
  };
  using Set = std::unordered_set<Nonce, Hash>;
  void turn(base::TimePoint now);

  size_t half_;  // nonces in one generation
  base::Duration keep_;
  Set young_;
  Set old_;
  base::TimePoint turned_{};
};

}  // namespace rayo::rpc
