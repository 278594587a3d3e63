// Programs by content hash (XXH3-128), one file each in one folder: of the head and of each raylet.
//
//   RAYO_ASSIGN_OR_RETURN(auto part, files.begin(package));
//   RAYO_RETURN_IF_ERROR(part->write(0, bytes));     // in order
//   RAYO_RETURN_IF_ERROR(part->finish());            // now has(package)
//
// A file has its name only once it is whole and its hash is right, and never changes. Several may bring one package at the same
// time: each writes a file of its own, and the first that is whole is it. Blocking calls, on any one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/fd.h"
#include "runtime/base/private_file.h"
#include "runtime/base/status.h"

struct XXH3_state_s;

namespace rayo::base {

constexpr int64_t kPackagePieceBytes = 1 << 20;  // of a package on its way
constexpr int64_t kMaxPackageBytes = 4LL << 30;  // of one program
// Of programs that no job runs: the last ones are kept, so that they start at once when they are run again.
constexpr int64_t kIdlePackageBytes = 1LL << 30;
constexpr size_t kIdlePackages = 64;

class PackageFiles {
 public:
  explicit PackageFiles(Path folder) : folder_(std::move(folder)) {}

  // Makes the folder; what an earlier process had not finished goes.
  Status prepare() const;
  bool has(PackageId package) const;
  // has(), of one that is about to be run: it is the last to go.
  bool use(PackageId package) const;
  // For reading. NotFound where it is not here.
  StatusOr<Fd> open(PackageId package) const;

  // A package that arrives; without finish() nothing is left of it.
  class Incoming {
   public:
    ~Incoming();
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;
    // InvalidArgument: not where the last piece ended, or too long.
    Status write(int64_t offset, std::string_view bytes);
    // DataLoss: it has another hash.
    Status finish();

   private:
    friend class PackageFiles;
    Incoming(Path part, Path whole, PackageId package, Fd file);
    struct FreeHash {
      void operator()(XXH3_state_s* state) const;
    };
    Path part_;
    Path whole_;
    PackageId package_;
    Fd file_;
    int64_t bytes_ = 0;
    std::unique_ptr<XXH3_state_s, FreeHash> hash_;
  };
  StatusOr<std::unique_ptr<Incoming>> begin(PackageId package) const;
  // All of it from an open file.
  Status copy(PackageId package, int fd) const;
  void remove(PackageId package) const;
  // Removes the surplus of those that are not among `running`.
  void trim(const std::set<PackageId>& running) const;

 private:
  Path folder_;
};

struct IdlePackage {
  PackageId package;
  int64_t size_bytes = 0;
  int64_t used = 0;  // grows; of any clock
};
// Those that were used longest ago, so that of the others there are at most kIdlePackages of kIdlePackageBytes.
std::vector<PackageId> surplus(std::vector<IdlePackage> idle);

// The hash of what an open file holds, from its start. For tests.
StatusOr<PackageId> package_hash(int fd);

}  // namespace rayo::base
