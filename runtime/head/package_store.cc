#include "runtime/head/package_store.h"

#include <fcntl.h>
#include <memory>
#include <unistd.h>
#include <vector>
#include <xxhash.h>

#include "runtime/base/ids.h"
#include "runtime/base/text.h"

namespace rayo::head {

using base::cat;

bool PackageStore::has(PackageId id) const { return ::access((dir_ / id.hex()).c_str(), R_OK) == 0; }

base::StatusOr<base::Fd> PackageStore::open(PackageId id) const {
  auto file = dir_ / id.hex();
  base::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd)
    return base::failed_errno(errno, cat("the package ", id.hex(), " is not at the head"),
                              "run the program again: it is offered anew");
  return fd;
}

base::StatusOr<PackageStore::Incoming> PackageStore::Incoming::begin(const base::Path& dir, PackageId id) {
  RAYO_RETURN_IF_ERROR(base::make_private_dir(dir));
  auto part = dir / cat(id.hex(), ".part-", base::random_bits());
  base::Fd fd(::open(part.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700));
  if (!fd) return base::failed_errno(errno, cat("cannot write ", part.string()));
  return Incoming(std::move(part), dir / id.hex(), id, std::move(fd));
}

PackageStore::Incoming::~Incoming() {
  if (fd_) ::unlink(part_.c_str());
}

base::Status PackageStore::Incoming::write(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t done = ::write(fd_.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0)
      return base::failed_errno(errno, cat("cannot write ", part_.string()), "is the disk of the head full?");
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return {};
}

base::Status PackageStore::Incoming::finish() {
  if (::lseek(fd_.get(), 0, SEEK_SET) != 0) return base::failed_errno(errno, part_.string());
  RAYO_ASSIGN_OR_RETURN(auto hash, content_hash(fd_.get()));
  if (hash != id_) {
    return base::failed(absl::StatusCode::kInvalidArgument,
                        cat("the package ", id_.hex(), " has the hash ", hash.hex(), ": it changed on the way"),
                        "run the program again");
  }
  if (::rename(part_.c_str(), whole_.c_str()) != 0)
    return base::failed_errno(errno, cat("cannot rename ", part_.string()));
  fd_.reset();
  return {};
}

base::StatusOr<PackageId> content_hash(int fd) {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(kPackageChunkBytes);
  for (;;) {
    ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::failed_errno(errno, "cannot read a package");
    if (got == 0) break;
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<size_t>(got));
  }
  auto hash = XXH3_128bits_digest(state.get());
  return PackageId{hash.high64, hash.low64};
}

}  // namespace rayo::head
