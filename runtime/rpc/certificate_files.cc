#include "runtime/rpc/certificates.h"

namespace rayo::rpc {

base::Status store_authority(const base::Path& dir, const Authority& authority) {
  RAYO_RETURN_IF_ERROR(base::make_private_dir(dir));
  // The key first: a certificate without its key would look like a cluster that cannot issue.
  RAYO_RETURN_IF_ERROR(base::write_private_file(dir / "ca.key", authority.key_pem));
  return base::write_private_file(dir / "ca.pem", authority.certificate_pem);
}

base::StatusOr<Authority> load_authority(const base::Path& dir) {
  Authority authority;
  RAYO_ASSIGN_OR_RETURN(authority.certificate_pem, base::read_file(dir / "ca.pem"));
  RAYO_ASSIGN_OR_RETURN(authority.key_pem, base::read_file(dir / "ca.key"));
  return authority;
}

}  // namespace rayo::rpc
