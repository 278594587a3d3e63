#include "runtime/base/package_files.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>
#include <xxhash.h>

#include "runtime/base/ids.h"
#include "runtime/base/text.h"

namespace rayo::base {
namespace {

constexpr std::string_view kPart = ".part-";  // of a name: not finished

PackageId hash_of(const XXH3_state_t* state) {
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  return {hash.high64, hash.low64};
}

// Calls `use` with each piece of the file and its offset.
template <class Use>
Status read_pieces(int fd, Use use) {
  std::string buffer(kPackagePieceBytes, '\0');
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(fd, buffer.data(), buffer.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed_errno(errno, "cannot read a package");
    if (got == 0) return absl::OkStatus();
    RAYO_RETURN_IF_ERROR(use(at, std::string_view(buffer.data(), static_cast<size_t>(got))));
    at += got;
  }
}

}  // namespace

Status PackageFiles::prepare() const {
  RAYO_RETURN_IF_ERROR(make_private_dir(folder_));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    if (entry.path().filename().string().find(kPart) != std::string::npos) ::unlink(entry.path().c_str());
  }
  return absl::OkStatus();
}

bool PackageFiles::has(PackageId package) const { return ::access((folder_ / package.hex()).c_str(), R_OK) == 0; }

bool PackageFiles::use(PackageId package) const {
  return ::utimensat(AT_FDCWD, (folder_ / package.hex()).c_str(), nullptr, 0) == 0;
}

StatusOr<Fd> PackageFiles::open(PackageId package) const {
  Fd file(::open((folder_ / package.hex()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file)
    return failed_errno(errno, cat("the package ", package.hex(), " cannot be opened"),
                        "run the program again: it is offered anew");
  return file;
}

StatusOr<std::unique_ptr<PackageFiles::Incoming>> PackageFiles::begin(PackageId package) const {
  Path part = folder_ / cat(package.hex(), kPart, random_bits());
  Fd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700));
  if (!file) return failed_errno(errno, cat("cannot write ", part.string()));
  return std::unique_ptr<Incoming>(new Incoming(std::move(part), folder_ / package.hex(), package, std::move(file)));
}

Status PackageFiles::copy(PackageId package, int fd) const {
  if (has(package)) return absl::OkStatus();
  RAYO_ASSIGN_OR_RETURN(auto part, begin(package));
  RAYO_RETURN_IF_ERROR(
      read_pieces(fd, [&](int64_t offset, std::string_view bytes) { return part->write(offset, bytes); }));
  return part->finish();
}

void PackageFiles::remove(PackageId package) const { ::unlink((folder_ / package.hex()).c_str()); }

void PackageFiles::trim(const std::set<PackageId>& running) const {
  std::vector<IdlePackage> idle;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    auto package = PackageId::from_hex(entry.path().filename().string());
    if (!package || running.contains(*package)) continue;
    idle.push_back({*package, static_cast<int64_t>(entry.file_size(error)),
                    entry.last_write_time(error).time_since_epoch().count()});
  }
  for (PackageId package : surplus(std::move(idle))) remove(package);
}

PackageFiles::Incoming::Incoming(Path part, Path whole, PackageId package, Fd file)
    : part_(std::move(part)),
      whole_(std::move(whole)),
      package_(package),
      file_(std::move(file)),
      hash_(XXH3_createState()) {
  XXH3_128bits_reset(hash_.get());
}

PackageFiles::Incoming::~Incoming() {
  if (!part_.empty()) ::unlink(part_.c_str());
}

void PackageFiles::Incoming::FreeHash::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Status PackageFiles::Incoming::write(int64_t offset, std::string_view bytes) {
  if (offset != bytes_)
    return failed(absl::StatusCode::kInvalidArgument, cat("package ", package_.hex(), ": its pieces are out of order"));
  if (static_cast<int64_t>(bytes.size()) > kMaxPackageBytes - bytes_)
    return failed(absl::StatusCode::kInvalidArgument, cat("package ", package_.hex(), " is longer than 4 GiB"));
  XXH3_128bits_update(hash_.get(), bytes.data(), bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed_errno(errno, cat("cannot write ", part_.string()), "is that disk full?");
    bytes.remove_prefix(static_cast<size_t>(written));
    bytes_ += written;
  }
  return absl::OkStatus();
}

Status PackageFiles::Incoming::finish() {
  if (hash_of(hash_.get()) != package_)
    return failed(absl::StatusCode::kDataLoss, cat("package ", package_.hex(), ": what arrived has another hash"),
                  "was the program overwritten while it ran? start it again");
  file_.reset();  // a file open for writing cannot be run
  if (::rename(part_.c_str(), whole_.c_str()) != 0) return failed_errno(errno, cat("cannot rename ", part_.string()));
  part_.clear();
  return absl::OkStatus();
}

std::vector<PackageId> surplus(std::vector<IdlePackage> idle) {
  std::ranges::sort(idle, std::ranges::greater(), &IdlePackage::used);
  std::vector<PackageId> out;
  int64_t bytes = 0;
  for (size_t i = 0; i < idle.size(); ++i) {
    bytes += idle[i].size_bytes;
    if (i >= kIdlePackages || bytes > kIdlePackageBytes) out.push_back(idle[i].package);
  }
  return out;
}

StatusOr<PackageId> package_hash(int fd) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  RAYO_RETURN_IF_ERROR(read_pieces(fd, [&](int64_t, std::string_view bytes) {
    XXH3_128bits_update(state.get(), bytes.data(), bytes.size());
    return absl::OkStatus();
  }));
  return hash_of(state.get());
}

}  // namespace rayo::base
