#include "runtime/raylet/package_store.h"

#include <algorithm>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/raylet/frame_wire.h"
#include "runtime/rpc/grpc/methods.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {

using base::cat;

bool PackageStore::has(PackageId package) const {
  auto found = entries_.find(package);
  return found != entries_.end() && found->second.file;
}

base::Status PackageStore::adopt(PackageId package, int64_t size_bytes, base::Fd file) {
  if (has(package)) return absl::OkStatus();
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != size_bytes ||
      size_bytes > base::kMaxPackageBytes)
    return base::failed(absl::StatusCode::kInvalidArgument,
                        "the program that was offered is no regular file of the size told");
  keep(package, std::move(file), size_bytes);
  copy_behind(package);
  return absl::OkStatus();
}

void PackageStore::keep(PackageId package, base::Fd file, int64_t size_bytes) {
  Entry& entry = entries_[package];
  entry.file = std::move(file);
  entry.size_bytes = size_bytes;
  entry.used = ++uses_;
  changed_.notify_all();
}

void PackageStore::copy_behind(PackageId package) {
  tasks_.spawn("package copy", [this, package, source = duplicate(entries_.at(package).file.get())] {
    auto copied = base::run_on_thread(disk_, [&] { return files_.copy(package, source.get()); });
    if (!copied.ok()) base::log().warn("package {}: {}", package.hex(), base::message(copied));
  });
}

base::Status PackageStore::receive(ProcessId from, const proto::PackageChunk& chunk) {
  auto package = rpc::from_proto<PackageId>(chunk.package());
  if (has(package)) {  // another one was faster
    incoming_.erase({from, package});
    return absl::OkStatus();
  }
  auto& slot = incoming_[{from, package}];
  if (!slot || chunk.offset() == 0) {
    auto begun = files_.begin(package);
    if (!begun.ok()) return begun.status();
    slot = std::move(*begun);
  }
  auto part = slot;
  base::Status added = add_piece(*part, package, chunk);
  if (!added.ok() || chunk.last()) incoming_.erase({from, package});
  return added;
}

void PackageStore::sender_gone(ProcessId from) {
  std::erase_if(incoming_, [from](const auto& entry) { return entry.first.first == from; });
}

base::Status PackageStore::add_piece(Incoming& part, PackageId package, const proto::PackageChunk& chunk) {
  base::Fd whole;
  RAYO_RETURN_IF_ERROR(base::run_on_thread(disk_, [&]() -> base::Status {
    RAYO_RETURN_IF_ERROR(part.write(chunk.offset(), chunk.data()));
    if (!chunk.last()) return absl::OkStatus();
    RAYO_RETURN_IF_ERROR(part.finish());
    RAYO_ASSIGN_OR_RETURN(whole, files_.open(package));
    return absl::OkStatus();
  }));
  if (!whole || has(package)) return absl::OkStatus();
  keep(package, std::move(whole), chunk.offset() + static_cast<int64_t>(chunk.data().size()));
  return absl::OkStatus();
}

base::StatusOr<base::Fd> PackageStore::open(PackageId package, rpc::Channel* head, base::TimePoint deadline) {
  while (!has(package)) {
    Entry& entry = entries_[package];
    if (entry.fetching) {
      if (!changed_.wait(deadline))
        return base::failed(absl::StatusCode::kDeadlineExceeded,
                            cat("package ", package.hex(), " did not arrive in time"));
      continue;
    }
    if (!head)
      return base::failed(absl::StatusCode::kUnavailable,
                          cat("package ", package.hex(), " is not here and the head is away"));
    entry.fetching = true;
    auto fetched = fetch(package, *head, deadline);  // the head waits while the driver's node still sends it
    entries_[package].fetching = false;
    if (!fetched.ok()) entries_.erase(package);
    changed_.notify_all();
    RAYO_RETURN_IF_ERROR(fetched);
  }
  Entry& entry = entries_.at(package);
  entry.used = ++uses_;
  base::Fd copy = duplicate(entry.file.get());
  if (!copy) return base::failed_errno(errno, "no descriptor left for a package");
  return copy;
}

base::Status PackageStore::fetch(PackageId package, rpc::Channel& head, base::TimePoint deadline) {
  proto::FetchPackageRequest request;
  rpc::to_proto(package, request.mutable_package());
  RAYO_ASSIGN_OR_RETURN(auto stream, head.open(rpc::head::kFetchPackage, request, deadline));
  RAYO_ASSIGN_OR_RETURN(auto part, files_.begin(package));
  while (true) {
    RAYO_ASSIGN_OR_RETURN(auto chunk, stream->read(deadline));
    if (!chunk) break;
    RAYO_RETURN_IF_ERROR(add_piece(*part, package, *chunk));
  }
  RAYO_RETURN_IF_ERROR(stream->finish(deadline));
  if (has(package)) return absl::OkStatus();
  return base::failed(absl::StatusCode::kDataLoss, cat("package ", package.hex(), " ended before its last piece"));
}

// What goes is forgotten first: whoever brings it again meanwhile has it open, and a descriptor needs no name.
void PackageStore::trim(const std::set<PackageId>& running) {
  std::vector<base::IdlePackage> idle;
  for (const auto& [package, entry] : entries_)
    if (entry.file && !running.contains(package)) idle.push_back({package, entry.size_bytes, entry.used});
  std::vector<PackageId> gone = base::surplus(std::move(idle));
  if (gone.empty()) return;
  for (PackageId package : gone) entries_.erase(package);
  tasks_.spawn("remove packages", [this, gone = std::move(gone)] {
    base::run_on_thread(disk_, [&] {
      for (PackageId package : gone) files_.remove(package);
    });
  });
}

base::Status PackageStore::upload(PackageId package, rpc::Channel& head, base::TimePoint deadline) {
  if (!has(package)) return absl::OkStatus();
  proto::OfferPackage offer;
  rpc::to_proto(package, offer.mutable_package());
  const int64_t size = entries_.at(package).size_bytes;
  base::Fd file = duplicate(entries_.at(package).file.get());  // its job may end meanwhile
  offer.set_size_bytes(size);
  RAYO_ASSIGN_OR_RETURN(auto wanted, head.call(rpc::head::kOfferPackageToHead, offer, deadline));
  if (!wanted.needed()) return absl::OkStatus();
  auto stream = head.open(rpc::head::kSendPackage, deadline);
  for (int64_t at = 0; at < size;) {
    proto::PackageChunk chunk;
    rpc::to_proto(package, chunk.mutable_package());
    chunk.set_offset(at);
    std::string piece(static_cast<size_t>(std::min(base::kPackagePieceBytes, size - at)), '\0');
    ssize_t got = base::run_on_thread(disk_, [&] { return ::pread(file.get(), piece.data(), piece.size(), at); });
    if (got <= 0) return base::failed(absl::StatusCode::kDataLoss, cat("package ", package.hex(), " cannot be read"));
    piece.resize(static_cast<size_t>(got));
    chunk.set_data(std::move(piece));
    at += got;
    chunk.set_last(at >= size);
    RAYO_RETURN_IF_ERROR(stream->write(chunk, deadline));
  }
  return rpc::finish_with_reply(*stream, deadline).status();
}

}  // namespace rayo::raylet
