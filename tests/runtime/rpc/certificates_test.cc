// If these fail, a node passes as the head, a clock that is wrong is told as "Socket closed", or keys lie
// open on the disk.
#include "runtime/rpc/certificates.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include "runtime/base/text.h"
#include "runtime/rpc/openssl_handles.h"
#include "tests/testkit/manual_clock.h"

namespace rayo::rpc {
namespace {

using std::chrono::hours;

constexpr ClusterId kCluster{0x1111, 0x2222};
constexpr RoleName kNode{Role::kNode, kCluster, {0x3333, 0x4444}};

class Certificates : public testing::Test {
 protected:
  testkit::ManualClock clock_;
  Authority authority_ = *make_authority(kCluster, clock_.wall());
  TlsIdentity node_ = *issue_identity(authority_, kNode, clock_.wall());

  std::string problem(const TlsIdentity& identity) {
    base::Status status = check_identity(identity, clock_.wall());
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_FALSE(base::next_step(status).empty());
    return std::string(base::message(status));
  }
};

CertificateHandle read(const std::string& pem) {
  BioHandle bio = bio_over(pem);
  return CertificateHandle(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

void free_stack(STACK_OF(X509) * stack) { sk_X509_free(stack); }

time_t unix_seconds(base::WallTime at) {
  return std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count();
}

TEST_F(Certificates, TheRoleStandsInTheCertificate) {
  auto role = role_of(node_.certificate_pem);
  ASSERT_TRUE(role.ok());
  EXPECT_EQ(*role, kNode);
  EXPECT_EQ(role->uri(), "rayo://00000000000011110000000000002222/node/00000000000033330000000000004444");
  RoleName head{Role::kHead, kCluster, {}};
  EXPECT_EQ(*role_of(issue_identity(authority_, head, clock_.wall())->certificate_pem), head);
  EXPECT_FALSE(role_of(authority_.certificate_pem).ok()) << "the CA itself plays no role";
}

TEST_F(Certificates, OnlyOneSpellingOfARoleCounts) {
  std::string good = kNode.uri();
  EXPECT_TRUE(RoleName::parse(good));
  for (std::string wrong : {good + "/", good + "0", good.substr(1), std::string("rayo://x/head"),
                            std::string("rayo://0000000000001111000000000000222A/head"),
                            std::string("rayo://00000000000011110000000000002222/head/head"),
                            base::cat("rayo://", kCluster.hex()), base::cat("rayo://", kCluster.hex(), "/head/"),
                            base::cat("rayo://", kCluster.hex(), "/raylet/", kNode.id.hex()),
                            base::cat("rayo://", kCluster.hex(), "/node/", kNode.id.hex(), "/head")})
    EXPECT_FALSE(RoleName::parse(wrong)) << wrong;
}

TEST_F(Certificates, TheChainIsWhatTlsChecks) {
  Handle<X509_STORE, X509_STORE_free> store(X509_STORE_new());
  Handle<X509_STORE_CTX, X509_STORE_CTX_free> context(X509_STORE_CTX_new());
  CertificateHandle ca = read(authority_.certificate_pem), leaf = read(node_.certificate_pem);
  X509_STORE_add_cert(store.get(), ca.get());
  for (int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
    X509_STORE_CTX_set_purpose(context.get(), purpose);
    X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context.get()), unix_seconds(clock_.wall()));
    EXPECT_EQ(X509_verify_cert(context.get()), 1)
        << X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
    X509_STORE_CTX_cleanup(context.get());
  }
}

TEST_F(Certificates, ANodesCertificateIssuesNothing) {
  CertificateHandle ca = read(authority_.certificate_pem), node = read(node_.certificate_pem), forged(X509_new());
  BioHandle key_text = bio_over(node_.key_pem);
  KeyHandle key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  X509_set_version(forged.get(), 2);
  X509_set_pubkey(forged.get(), key.get());
  X509_set1_notBefore(forged.get(), X509_get0_notBefore(node.get()));
  X509_set1_notAfter(forged.get(), X509_get0_notAfter(node.get()));
  X509_set_issuer_name(forged.get(), X509_get_subject_name(node.get()));
  ASSERT_GT(X509_sign(forged.get(), key.get(), EVP_sha256()), 0);
  Handle<X509_STORE, X509_STORE_free> store(X509_STORE_new());
  Handle<X509_STORE_CTX, X509_STORE_CTX_free> context(X509_STORE_CTX_new());
  Handle<STACK_OF(X509), free_stack> between(sk_X509_new_null());
  X509_STORE_add_cert(store.get(), ca.get());
  sk_X509_push(between.get(), node.get());
  X509_STORE_CTX_init(context.get(), store.get(), forged.get(), between.get());
  X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context.get()), unix_seconds(clock_.wall()));
  EXPECT_EQ(X509_verify_cert(context.get()), 0);
  EXPECT_EQ(X509_STORE_CTX_get_error(context.get()), X509_V_ERR_INVALID_CA);
}

TEST_F(Certificates, ATamperedCertificateIsSeen) {
  CertificateHandle leaf = read(node_.certificate_pem);
  unsigned char* der = nullptr;
  int size = i2d_X509(leaf.get(), &der);
  ASSERT_GT(size, 0);
  std::string bytes(reinterpret_cast<char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  size_t at = bytes.find("/node/") + 7;
  bytes[at] = bytes[at] == '0' ? '1' : '0';
  const auto* front = reinterpret_cast<const unsigned char*>(bytes.data());
  CertificateHandle changed(d2i_X509(nullptr, &front, size));
  ASSERT_TRUE(changed);
  BioHandle out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(out.get(), changed.get());
  TlsIdentity forged = node_;
  forged.certificate_pem = bio_text(out.get());
  EXPECT_NE(role_of(forged.certificate_pem)->id, kNode.id);
  EXPECT_EQ(problem(forged), "this machine's certificate was issued by another cluster's CA");
}

TEST_F(Certificates, OnesOwnIsCheckedBeforeDialling) {
  EXPECT_TRUE(check_identity(node_, clock_.wall()).ok());
  TlsIdentity other = node_;
  other.ca_pem = make_authority(kCluster, clock_.wall())->certificate_pem;
  EXPECT_EQ(problem(other), "this machine's certificate was issued by another cluster's CA");
  TlsIdentity no_key = node_;
  no_key.key_pem = make_signing_request()->key_pem;
  EXPECT_EQ(problem(no_key), "this machine's key does not fit its certificate");
  no_key.key_pem = "nonsense";
  EXPECT_EQ(check_identity(no_key, clock_.wall()).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Certificates, AClockThatIsWrongIsNamed) {
  clock_.advance(-hours(23));
  EXPECT_TRUE(check_identity(node_, clock_.wall()).ok()) << "a clock may be a day behind the head's";
  clock_.advance(-hours(2));
  EXPECT_EQ(problem(node_),
            "this machine's clock says 2024-10-02 23:00 UTC, but the cluster's certificate begins "
            "2024-10-03 00:00 UTC");
  clock_.advance(hours(25) + hours(24) * 3651);
  EXPECT_TRUE(check_identity(node_, clock_.wall()).ok());
  clock_.advance(hours(25));
  EXPECT_EQ(problem(node_),
            "the certificate expired at 2034-10-04 00:00 UTC and this machine's clock says 2034-10-04 01:00 UTC");
}

TEST_F(Certificates, ANodeThatJoinsLateExpiresWithItsCa) {
  clock_.advance(hours(24) * 3000);
  TlsIdentity late = *issue_identity(authority_, kNode, clock_.wall());
  EXPECT_EQ(ASN1_TIME_compare(X509_get0_notAfter(read(late.certificate_pem).get()),
                              X509_get0_notAfter(read(authority_.certificate_pem).get())),
            0);
}

TEST_F(Certificates, ARequestMustBeSignedByItsOwnP256Key) {
  EXPECT_EQ(issue(authority_, "nonsense", kNode, clock_.wall()).status().code(), absl::StatusCode::kInvalidArgument);
  auto request_with = [](EVP_PKEY* key, EVP_PKEY* signer) {
    RequestHandle request(X509_REQ_new());
    X509_REQ_set_pubkey(request.get(), key);
    X509_REQ_sign(request.get(), signer, EVP_sha256());
    BioHandle out(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509_REQ(out.get(), request.get());
    return bio_text(out.get());
  };
  KeyHandle mine(EVP_EC_gen("P-256")), theirs(EVP_EC_gen("P-256")), large(EVP_EC_gen("P-384"));
  EXPECT_TRUE(issue(authority_, request_with(mine.get(), mine.get()), kNode, clock_.wall()).ok());
  EXPECT_FALSE(issue(authority_, request_with(theirs.get(), mine.get()), kNode, clock_.wall()).ok());
  EXPECT_FALSE(issue(authority_, request_with(large.get(), large.get()), kNode, clock_.wall()).ok());
}

TEST_F(Certificates, AServersNamesItsHostsAndNoRole) {
  auto server = issue_server_identity(authority_, {"10.0.0.5", "fd00::1", "gate.lan"}, clock_.wall());
  ASSERT_TRUE(server.ok());
  EXPECT_TRUE(check_identity(*server, clock_.wall()).ok());
  EXPECT_FALSE(role_of(server->certificate_pem).ok());
  auto certificate = read(server->certificate_pem);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "10.0.0.5", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(certificate.get(), "fd00::1", 0), 1);
  EXPECT_EQ(X509_check_host(certificate.get(), "gate.lan", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(certificate.get(), "evil.example", 0, 0, nullptr), 0);
}

TEST_F(Certificates, TheFingerprintIsOfThisCa) {
  EXPECT_EQ(*fingerprint_of(authority_.certificate_pem), *fingerprint_of(node_.ca_pem));
  EXPECT_NE(*fingerprint_of(authority_.certificate_pem), *fingerprint_of(node_.certificate_pem));
  EXPECT_FALSE(fingerprint_of("").ok());
}

TEST_F(Certificates, LieInPrivateFiles) {
  std::string pattern = testing::TempDir() + "/rayo_certificates_XXXXXX";
  base::Path dir = base::Path(mkdtemp(pattern.data())) / "state";
  EXPECT_EQ(load_authority(dir).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store_authority(dir, authority_).ok());
  EXPECT_EQ(load_authority(dir)->key_pem, authority_.key_pem);
  EXPECT_EQ(load_authority(dir)->certificate_pem, authority_.certificate_pem);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    struct stat info {};
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077, 0u) << entry.path();
  }
  std::filesystem::remove_all(pattern);
}

}  // namespace
}  // namespace rayo::rpc
