// The programs of this node's jobs by content hash, in node_dir/packages (runtime/base/package_files.h).
//
//   store.adopt(package, size, std::move(file), job_node_is_here);   // the driver's own executable, open: usable at once
//   auto fd = store.open(package, deadline);                         // for exec; fetched from the head where it is not here
//
// A driver's program is run from its open descriptor at once and copied behind it, so that its file may be
// rebuilt meanwhile. Files are read and written on the disk thread. Loop thread only; open, fetch and upload
// wait in a fiber.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>

#include <rayo/id.h>

#include "runtime/base/fd.h"
#include "runtime/base/loop/blocking.h"
#include "runtime/base/loop/event.h"
#include "runtime/base/package_files.h"
#include "runtime/base/status.h"
#include "runtime/rpc/grpc/client.h"

namespace rayo::raylet {

class PackageStore {
 public:
  explicit PackageStore(base::Path folder) : files_(std::move(folder)) {}

  base::Status prepare() const { return files_.prepare(); }
  bool has(PackageId package) const;
  // Takes the open file of a local driver; copies and checks it in the background. InvalidArgument where it
  // is no regular file of that size.
  base::Status adopt(PackageId package, int64_t size_bytes, base::Fd file);
  // A piece from a remote driver: in order from offset 0; the last one completes it. In a fiber. DataLoss: the hash
  // is another.
  base::Status receive(ProcessId from, const proto::PackageChunk& chunk);
  // Drops what it had not brought to its end.
  void sender_gone(ProcessId from);

  // An open descriptor for exec, fetched from the head where it is not here.
  base::StatusOr<base::Fd> open(PackageId package, rpc::Channel* head, base::TimePoint deadline);
  // No job runs others than these any more: the surplus of the others goes.
  void trim(const std::set<PackageId>& running);
  // To the head, where it does not have it yet.
  base::Status upload(PackageId package, rpc::Channel& head, base::TimePoint deadline);

 private:
  struct Entry {
    base::Fd file;  // open for reading
    int64_t size_bytes = 0;
    int64_t used = 0;  // when, by uses_
    bool fetching = false;
  };
  using Incoming = base::PackageFiles::Incoming;

  base::Status fetch(PackageId package, rpc::Channel& head, base::TimePoint deadline);
  void keep(PackageId package, base::Fd file, int64_t size_bytes);
  base::Status add_piece(Incoming& part, PackageId package, const proto::PackageChunk& chunk);
  void copy_behind(PackageId package);

  base::PackageFiles files_;
  base::WorkThreads disk_{"rayo-disk", 1};
  std::map<PackageId, Entry> entries_;
  int64_t uses_ = 0;
  // Of each driver its own. Shared with the fiber that writes a piece: its driver may go meanwhile.
  std::map<std::pair<ProcessId, PackageId>, std::shared_ptr<Incoming>> incoming_;
  base::WaitList changed_;
  base::TaskGroup tasks_;
};

}  // namespace rayo::raylet
