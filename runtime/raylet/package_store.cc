#include "runtime/raylet/package_store.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#include <xxhash.h>

#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/raylet/frame_wire.h"
#include "runtime/rpc/grpc/methods.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using base::cat;

constexpr size_t kPiece = 1u << 20;         // of a file on its way
constexpr int64_t kMaxPackage = 4LL << 30;  // bytes of one program

class Hasher {
 public:
  Hasher() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
  ~Hasher() { XXH3_freeState(state_); }
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void add(const void* data, size_t bytes) { XXH3_128bits_update(state_, data, bytes); }
  PackageId value() const {
    XXH128_hash_t hash = XXH3_128bits_digest(state_);
    return {hash.high64, hash.low64};
  }

 private:
  XXH3_state_t* state_;
};

base::Status write_all(int fd, const char* data, size_t bytes) {
  while (bytes > 0) {
    ssize_t written = ::write(fd, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      return base::failed_errno(errno, "cannot write a package", "is the disk of the runtime directory full?");
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

// Calls `use` with each piece of the file.
template <class Use>
base::Status read_pieces(int fd, Use use) {
  std::vector<char> buffer(kPiece);
  for (off_t at = 0;;) {
    ssize_t got = ::pread(fd, buffer.data(), buffer.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::failed_errno(errno, "cannot read a package");
    if (got == 0) return absl::OkStatus();
    RAYO_RETURN_IF_ERROR(use(buffer.data(), static_cast<size_t>(got)));
    at += got;
  }
}

base::Status wrong_content(PackageId package) {
  return base::failed(absl::StatusCode::kDataLoss, cat("package ", package.hex(), ": what arrived has another hash"),
                      "was the program overwritten while it ran? start it again");
}

// Copies an open file to folder/HASH by way of a temporary name; an existing one stays.
base::Status store_copy(int source, const base::Path& target, PackageId package) {
  if (::access(target.c_str(), F_OK) == 0) return absl::OkStatus();
  base::Path temporary = target;
  temporary += ".part";
  base::Fd out(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700));
  if (!out) return base::failed_errno(errno, cat("cannot write ", temporary.string()));
  Hasher hasher;
  auto copied = read_pieces(source, [&](const char* data, size_t bytes) {
    hasher.add(data, bytes);
    return write_all(out.get(), data, bytes);
  });
  if (copied.ok() && hasher.value() != package) copied = wrong_content(package);
  if (copied.ok() && ::rename(temporary.c_str(), target.c_str()) != 0)
    copied = base::failed_errno(errno, cat("cannot rename ", temporary.string()));
  if (!copied.ok()) ::unlink(temporary.c_str());
  return copied;
}

}  // namespace

// A package that arrives in pieces.
struct PackageStore::Incoming {
  base::Fd file;
  base::Path temporary;
  int64_t next_offset = 0;
  Hasher hasher;
};

base::StatusOr<PackageId> hash_file(int fd) {
  Hasher hasher;
  RAYO_RETURN_IF_ERROR(read_pieces(fd, [&](const char* data, size_t bytes) {
    hasher.add(data, bytes);
    return absl::OkStatus();
  }));
  return hasher.value();
}

PackageStore::PackageStore(base::Path folder) : folder_(std::move(folder)) {}

PackageStore::~PackageStore() = default;

base::Status PackageStore::prepare() { return base::make_private_dir(folder_); }

bool PackageStore::has(PackageId package) const {
  auto found = entries_.find(package);
  return found != entries_.end() && found->second.file;
}

base::Status PackageStore::adopt(PackageId package, int64_t size_bytes, base::Fd file) {
  if (has(package)) return absl::OkStatus();
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != size_bytes ||
      size_bytes > kMaxPackage)
    return base::failed(absl::StatusCode::kInvalidArgument,
                        "the program that was offered is no regular file of the size told");
  Entry& entry = entries_[package];
  entry.file = std::move(file);
  entry.size_bytes = size_bytes;
  changed_.notify_all();
  copy_behind(package);
  return absl::OkStatus();
}

void PackageStore::copy_behind(PackageId package) {
  tasks_.spawn("package copy", [this, package] {
    base::Fd source = duplicate(entries_.at(package).file.get());
    base::Path target = path(package);
    auto copied = base::run_on_thread(disk_, [&] { return store_copy(source.get(), target, package); });
    if (!copied.ok()) base::log().warn("package {}: {}", package.hex(), base::message(copied));
  });
}

base::Status PackageStore::receive(const proto::PackageChunk& chunk) {
  auto package = rpc::from_proto<PackageId>(chunk.package());
  if (has(package)) return absl::OkStatus();
  auto& incoming = incoming_[package];
  if (!incoming || chunk.offset() == 0) {
    incoming = std::make_unique<Incoming>();
    incoming->temporary = path(package);
    incoming->temporary += ".in";
    incoming->file = base::Fd(::open(incoming->temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0700));
    if (!incoming->file) return base::failed_errno(errno, cat("cannot write ", incoming->temporary.string()));
  }
  if (chunk.offset() != incoming->next_offset ||
      chunk.offset() + static_cast<int64_t>(chunk.data().size()) > kMaxPackage) {
    incoming_.erase(package);
    return base::failed(absl::StatusCode::kInvalidArgument,
                        cat("package ", package.hex(), ": its pieces are out of order"));
  }
  Incoming& part = *incoming;
  RAYO_RETURN_IF_ERROR(base::run_on_thread(disk_, [&] {
    part.hasher.add(chunk.data().data(), chunk.data().size());
    return write_all(part.file.get(), chunk.data().data(), chunk.data().size());
  }));
  part.next_offset += static_cast<int64_t>(chunk.data().size());
  if (!chunk.last()) return absl::OkStatus();
  auto done = complete(package, part);
  incoming_.erase(package);
  return done;
}

base::Status PackageStore::complete(PackageId package, Incoming& incoming) {
  if (incoming.hasher.value() != package) {
    ::unlink(incoming.temporary.c_str());
    return wrong_content(package);
  }
  incoming.file.reset();  // a file open for writing cannot be run
  base::Path target = path(package);
  if (::rename(incoming.temporary.c_str(), target.c_str()) != 0)
    return base::failed_errno(errno, cat("cannot write ", target.string()));
  Entry& entry = entries_[package];
  entry.file = base::Fd(::open(target.c_str(), O_RDONLY | O_CLOEXEC));
  entry.size_bytes = incoming.next_offset;
  if (!entry.file) return base::failed_errno(errno, cat("cannot open ", target.string()));
  changed_.notify_all();
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
    changed_.notify_all();
    RAYO_RETURN_IF_ERROR(fetched);
  }
  base::Fd copy = duplicate(entries_.at(package).file.get());
  if (!copy) return base::failed_errno(errno, "no descriptor left for a package");
  return copy;
}

base::Status PackageStore::fetch(PackageId package, rpc::Channel& head, base::TimePoint deadline) {
  proto::FetchPackageRequest request;
  rpc::to_proto(package, request.mutable_package());
  RAYO_ASSIGN_OR_RETURN(auto stream, head.open(rpc::head::kFetchPackage, request, deadline));
  while (true) {
    RAYO_ASSIGN_OR_RETURN(auto chunk, stream->read(deadline));
    if (!chunk) break;
    *chunk->mutable_package() = request.package();
    RAYO_RETURN_IF_ERROR(receive(*chunk));
  }
  RAYO_RETURN_IF_ERROR(stream->finish(deadline));
  if (has(package)) return absl::OkStatus();
  return base::failed(absl::StatusCode::kDataLoss, cat("package ", package.hex(), " ended before its last piece"));
}

base::Status PackageStore::upload(PackageId package, rpc::Channel& head, base::TimePoint deadline) {
  if (!has(package)) return absl::OkStatus();
  proto::OfferPackage offer;
  rpc::to_proto(package, offer.mutable_package());
  offer.set_size_bytes(entries_.at(package).size_bytes);
  RAYO_ASSIGN_OR_RETURN(auto wanted, head.call(rpc::head::kOfferPackageToHead, offer, deadline));
  if (!wanted.needed()) return absl::OkStatus();
  base::Fd file = duplicate(entries_.at(package).file.get());
  int64_t size = entries_.at(package).size_bytes;
  auto stream = head.open(rpc::head::kSendPackage, deadline);
  for (int64_t at = 0; at < size;) {
    proto::PackageChunk chunk;
    rpc::to_proto(package, chunk.mutable_package());
    chunk.set_offset(at);
    std::string piece(std::min<size_t>(kPiece, static_cast<size_t>(size - at)), '\0');
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
