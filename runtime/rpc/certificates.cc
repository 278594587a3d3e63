#include "runtime/rpc/certificates.h"

#include <arpa/inet.h>
#include <ctime>

#include "runtime/base/text.h"
#include "runtime/rpc/openssl_handles.h"

namespace rayo::rpc {
namespace {

using NameHandle = Handle<X509_NAME, X509_NAME_free>;
using ExtensionHandle = Handle<X509_EXTENSION, X509_EXTENSION_free>;
using NamesHandle = Handle<GENERAL_NAMES, GENERAL_NAMES_free>;
using NumberHandle = Handle<BIGNUM, BN_free>;

constexpr base::Duration kBackdated = std::chrono::hours(24);  // clocks of machines differ
constexpr base::Duration kValid = std::chrono::hours(24) * 3652;
constexpr int kVersion3 = 2;  // as X.509 counts

base::Status broken(std::string_view what) {
  return base::failed(absl::StatusCode::kInternal, base::cat(what, ": ", openssl_error()));
}

base::Status malformed(std::string_view what) {
  return base::failed(absl::StatusCode::kInvalidArgument, base::cat(what, ": ", openssl_error()));
}

base::StatusOr<CertificateHandle> read_certificate(std::string_view pem) {
  BioHandle bio = bio_over(pem);
  CertificateHandle certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!certificate) return malformed("this is no certificate");
  return certificate;
}

// Without it OpenSSL would ask the terminal for the pass phrase of an encrypted key.
int no_pass_phrase(char*, int, int, void*) { return 0; }

base::StatusOr<KeyHandle> read_key(std::string_view pem) {
  BioHandle bio = bio_over(pem);
  KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_pass_phrase, nullptr));
  if (!key) return malformed("this is no private key");
  return key;
}

base::StatusOr<std::string> key_text(EVP_PKEY* key) {
  BioHandle bio(BIO_new(BIO_s_mem()));
  if (!bio || !PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr))
    return broken("cannot write a private key");
  return bio_text(bio.get());
}

base::StatusOr<std::string> certificate_text(X509* certificate) {
  BioHandle bio(BIO_new(BIO_s_mem()));
  if (!bio || !PEM_write_bio_X509(bio.get(), certificate)) return broken("cannot write a certificate");
  return bio_text(bio.get());
}

base::StatusOr<KeyHandle> make_key() {
  KeyHandle key(EVP_EC_gen("P-256"));
  if (!key) return broken("cannot make a key");
  return key;
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  ExtensionHandle extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1);
}

bool set_time(ASN1_TIME* field, base::WallTime at) {
  return ASN1_TIME_set(field,
                       std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::seconds>(at)));
}

bool set_common_name(X509* certificate, const std::string& text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8, bytes,
                                    static_cast<int>(text.size()), -1, 0);
}

// Version, a random serial number, dates and the public key: what every certificate of ours has.
bool set_basics(X509* certificate, EVP_PKEY* key, base::WallTime now) {
  NumberHandle serial(BN_new());
  return serial && BN_rand(serial.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) &&
         BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) &&
         X509_set_version(certificate, kVersion3) && set_time(X509_getm_notBefore(certificate), now - kBackdated) &&
         set_time(X509_getm_notAfter(certificate), now + kValid) && X509_set_pubkey(certificate, key);
}

// The year-month-day of a certificate's date, for people.
std::string day(const ASN1_TIME* time) {
  std::tm parts{};
  char text[32] = "?";
  if (ASN1_TIME_to_tm(time, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

std::string day(base::WallTime time) {
  time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::seconds>(time));
  std::tm parts{};
  char text[32];
  gmtime_r(&seconds, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

base::Status check_dates(X509* certificate, base::WallTime now) {
  time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::seconds>(now));
  if (X509_cmp_time(X509_get0_notBefore(certificate), &seconds) > 0)
    return base::failed(absl::StatusCode::kFailedPrecondition,
                        base::cat("this machine's clock says ", day(now), ", but the cluster's certificate begins ",
                                  day(X509_get0_notBefore(certificate))),
                        "set the clock (`timedatectl set-ntp true`) here and on the head's machine");
  if (X509_cmp_time(X509_get0_notAfter(certificate), &seconds) < 0)
    return base::failed(absl::StatusCode::kFailedPrecondition,
                        base::cat("the certificate expired at ", day(X509_get0_notAfter(certificate)),
                                  " and this machine's clock says ", day(now)),
                        "is the clock right? else start the cluster anew: `rayo stop`, `rayo start --head`");
  return {};
}

}  // namespace

std::string RoleName::uri() const {
  switch (role) {
    case Role::kHead:
      return base::cat("rayo://", cluster.hex(), "/head");
    case Role::kNode:
      return base::cat("rayo://", cluster.hex(), "/node/", id.hex());
    case Role::kClient:
      break;
  }
  return base::cat("rayo://", cluster.hex(), "/client/", id.hex());
}

std::optional<RoleName> RoleName::parse(std::string_view uri) {
  constexpr std::string_view kScheme = "rayo://";
  if (!uri.starts_with(kScheme)) return std::nullopt;
  auto parts = base::split(uri.substr(kScheme.size()), '/');
  if (parts.size() < 2) return std::nullopt;
  auto cluster = ClusterId::from_hex(parts[0]);
  if (!cluster) return std::nullopt;
  RoleName name{Role::kHead, *cluster, {}};
  if (parts.size() == 3) {
    auto id = MemberId::from_hex(parts[2]);
    if (!id || (parts[1] != "node" && parts[1] != "client")) return std::nullopt;
    name.role = parts[1] == "node" ? Role::kNode : Role::kClient;
    name.id = *id;
  }
  // One spelling for one name (capitals in an id would make two); this also refuses all that was not looked
  // at.
  return name.uri() == uri ? std::optional(name) : std::nullopt;
}

base::StatusOr<Authority> make_authority(const ClusterId& cluster, base::WallTime now) {
  RAYO_ASSIGN_OR_RETURN(KeyHandle key, make_key());
  CertificateHandle ca(X509_new());
  if (!ca || !set_basics(ca.get(), key.get(), now) ||
      !set_common_name(ca.get(), base::cat("rayo cluster ", cluster.hex())) ||
      !X509_set_issuer_name(ca.get(), X509_get_subject_name(ca.get())) ||
      !add_extension(ca.get(), ca.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(ca.get(), ca.get(), NID_key_usage, "critical,keyCertSign") ||
      !add_extension(ca.get(), ca.get(), NID_subject_key_identifier, "hash") ||
      !X509_sign(ca.get(), key.get(), EVP_sha256()))
    return broken("cannot make the cluster's CA");
  Authority authority;
  RAYO_ASSIGN_OR_RETURN(authority.certificate_pem, certificate_text(ca.get()));
  RAYO_ASSIGN_OR_RETURN(authority.key_pem, key_text(key.get()));
  return authority;
}

base::StatusOr<SigningRequest> make_signing_request() {
  RAYO_ASSIGN_OR_RETURN(KeyHandle key, make_key());
  RequestHandle request(X509_REQ_new());
  BioHandle bio(BIO_new(BIO_s_mem()));
  if (!request || !bio || !X509_REQ_set_version(request.get(), 0) || !X509_REQ_set_pubkey(request.get(), key.get()) ||
      !X509_REQ_sign(request.get(), key.get(), EVP_sha256()) || !PEM_write_bio_X509_REQ(bio.get(), request.get()))
    return broken("cannot make a signing request");
  SigningRequest made;
  made.request_pem = bio_text(bio.get());
  RAYO_ASSIGN_OR_RETURN(made.key_pem, key_text(key.get()));
  return made;
}

namespace {

// What the CA says of a key: how it is used, and the names that it stands for.
struct Claims {
  std::string usage;
  std::string names;
};

base::StatusOr<std::string> sign(const Authority& authority, std::string_view request_pem, const Claims& claims,
                                 base::WallTime now) {
  BioHandle bio = bio_over(request_pem);
  RequestHandle request(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  if (!request) return malformed("this is no signing request");
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (!key || X509_REQ_verify(request.get(), key) != 1)
    return malformed("the signing request is not signed by its key");
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC || EVP_PKEY_get_bits(key) != 256)
    return base::failed(absl::StatusCode::kInvalidArgument, "the signing request's key is not of the kind P-256");
  RAYO_ASSIGN_OR_RETURN(CertificateHandle ca, read_certificate(authority.certificate_pem));
  RAYO_ASSIGN_OR_RETURN(KeyHandle ca_key, read_key(authority.key_pem));
  CertificateHandle made(X509_new());
  if (!made || !set_basics(made.get(), key, now) || !set_common_name(made.get(), "rayo") ||
      !X509_set1_notAfter(made.get(), X509_get0_notAfter(ca.get())) ||
      !X509_set_issuer_name(made.get(), X509_get_subject_name(ca.get())) ||
      !add_extension(made.get(), ca.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(made.get(), ca.get(), NID_key_usage, "critical,digitalSignature") ||
      !add_extension(made.get(), ca.get(), NID_ext_key_usage, claims.usage) ||
      !add_extension(made.get(), ca.get(), NID_authority_key_identifier, "keyid") ||
      !add_extension(made.get(), ca.get(), NID_subject_alt_name, claims.names) ||
      !X509_sign(made.get(), ca_key.get(), EVP_sha256()))
    return broken("cannot issue a certificate");
  return certificate_text(made.get());
}

bool is_numeric(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

base::StatusOr<std::string> issue(const Authority& authority, std::string_view request_pem, const RoleName& name,
                                  base::WallTime now) {
  return sign(authority, request_pem, {"serverAuth,clientAuth", base::cat("URI:", name.uri())}, now);
}

base::StatusOr<TlsIdentity> issue_server_identity(const Authority& authority, const std::vector<std::string>& hosts,
                                                  base::WallTime now) {
  std::vector<std::string> names;
  for (const std::string& host : hosts) names.push_back(base::cat(is_numeric(host) ? "IP:" : "DNS:", host));
  RAYO_ASSIGN_OR_RETURN(SigningRequest request, make_signing_request());
  RAYO_ASSIGN_OR_RETURN(std::string certificate,
                        sign(authority, request.request_pem, {"serverAuth", base::join(names, ",")}, now));
  return TlsIdentity{authority.certificate_pem, std::move(certificate), std::move(request.key_pem)};
}

base::StatusOr<TlsIdentity> issue_identity(const Authority& authority, const RoleName& name, base::WallTime now) {
  RAYO_ASSIGN_OR_RETURN(SigningRequest request, make_signing_request());
  RAYO_ASSIGN_OR_RETURN(std::string certificate, issue(authority, request.request_pem, name, now));
  return TlsIdentity{authority.certificate_pem, std::move(certificate), std::move(request.key_pem)};
}

base::StatusOr<Fingerprint> fingerprint_of(std::string_view certificate_pem) {
  RAYO_ASSIGN_OR_RETURN(CertificateHandle certificate, read_certificate(certificate_pem));
  Fingerprint fingerprint;
  unsigned size = 0;
  if (!X509_digest(certificate.get(), EVP_sha256(), fingerprint.data(), &size) || size != fingerprint.size())
    return broken("cannot hash a certificate");
  return fingerprint;
}

base::StatusOr<RoleName> role_of(std::string_view certificate_pem) {
  RAYO_ASSIGN_OR_RETURN(CertificateHandle certificate, read_certificate(certificate_pem));
  NamesHandle names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* entry = sk_GENERAL_NAME_value(names.get(), i);
    if (entry->type != GEN_URI) continue;
    const ASN1_IA5STRING* text = entry->d.uniformResourceIdentifier;
    auto name = RoleName::parse(
        {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)), static_cast<size_t>(ASN1_STRING_length(text))});
    if (name) return *name;
  }
  return base::failed(absl::StatusCode::kInvalidArgument, "the certificate names no role of a Rayo cluster");
}

base::Status check_identity(const TlsIdentity& identity, base::WallTime now) {
  RAYO_ASSIGN_OR_RETURN(CertificateHandle ca, read_certificate(identity.ca_pem));
  RAYO_ASSIGN_OR_RETURN(CertificateHandle certificate, read_certificate(identity.certificate_pem));
  RAYO_ASSIGN_OR_RETURN(KeyHandle key, read_key(identity.key_pem));
  RAYO_RETURN_IF_ERROR(check_dates(ca.get(), now));
  RAYO_RETURN_IF_ERROR(check_dates(certificate.get(), now));
  int issued = X509_check_issued(ca.get(), certificate.get());
  bool genuine = issued == X509_V_OK && X509_verify(certificate.get(), X509_get0_pubkey(ca.get())) == 1;
  bool fits = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!genuine)
    return base::failed(absl::StatusCode::kFailedPrecondition,
                        "this machine's certificate was issued by another cluster's CA",
                        "join again: `rayo stop`, then the line that `rayo token` prints on the head's machine");
  if (!fits)
    return base::failed(absl::StatusCode::kFailedPrecondition, "this machine's key does not fit its certificate",
                        "join again: `rayo stop`, then the line that `rayo token` prints on the head's machine");
  return {};
}

}  // namespace rayo::rpc
