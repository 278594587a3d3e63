// Programs by content hash, on the head's disk: offered once, fetched by every node that lacks them. Blocking calls;
// use on the disk thread. A file is seen only once it is whole and its hash is right.
#pragma once

#include <cstdint>
#include <string>

#include <rayo/id.h>

#include "runtime/base/fd.h"
#include "runtime/base/private_file.h"
#include "runtime/base/status.h"

namespace rayo::head {

constexpr int64_t kPackageChunkBytes = 1 << 20;

class PackageStore {
 public:
  explicit PackageStore(base::Path dir) : dir_(std::move(dir)) {}

  bool has(PackageId id) const;
  // Reading: NotFound where it is not here.
  base::StatusOr<base::Fd> open(PackageId id) const;

  // One transfer in: bytes in order, then finish(), which compares the hash (InvalidArgument) and makes the file seen.
  class Incoming {
   public:
    static base::StatusOr<Incoming> begin(const base::Path& dir, PackageId id);
    Incoming(Incoming&&) = default;
    Incoming& operator=(Incoming&&) = default;
    ~Incoming();  // drops what is not finished
    base::Status write(std::string_view bytes);
    base::Status finish();

   private:
    Incoming(base::Path part, base::Path whole, PackageId id, base::Fd fd)
        : part_(std::move(part)), whole_(std::move(whole)), id_(id), fd_(std::move(fd)) {}
    base::Path part_;
    base::Path whole_;
    PackageId id_;
    base::Fd fd_;
  };
  base::StatusOr<Incoming> begin(PackageId id) const { return Incoming::begin(dir_, id); }

 private:
  base::Path dir_;
};

// XXH3-128 of what can be read from the descriptor.
base::StatusOr<PackageId> content_hash(int fd);

}  // namespace rayo::head
