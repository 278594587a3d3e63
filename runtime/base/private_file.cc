#include "runtime/base/private_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

#include "runtime/base/fd.h"
#include "runtime/base/text.h"

namespace rayo::base {
namespace {

constexpr size_t kLargestFile = 16u << 20;  // settings and tokens are kilobytes: more is not ours

std::string mend_for(int error, const Path& place) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return cat("make room on the disk of ", place.string(), ", or set RAYO_HOME and RAYO_RUNTIME_DIR to another one");
    case EROFS:
    case EACCES:
    case EPERM:
      return cat("make ", place.string(),
                 " writable for you, or set RAYO_HOME and RAYO_RUNTIME_DIR to a place that is");
    default:
      return "set RAYO_HOME and RAYO_RUNTIME_DIR to a place on a local disk";
  }
}

Status write_all(int fd, std::string_view content, const Path& file) {
  while (!content.empty()) {
    ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      return failed_errno(errno, cat("cannot write ", file.string()), mend_for(errno, file.parent_path()));
    content.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status make_one_dir(const Path& dir) {
  if (::mkdir(dir.c_str(), 0700) == 0) return {};
  int error = errno;
  struct stat found {};
  if (error == EEXIST && ::stat(dir.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) return {};
    return failed(absl::StatusCode::kFailedPrecondition,
                  cat("cannot create ", dir.string(), ": a file of that name is in the way"),
                  cat("move ", dir.string(), " away"));
  }
  return failed_errno(error, cat("cannot create ", dir.string()), mend_for(error, dir.parent_path()));
}

// What would be taken from others, were it made private: a directory that anybody may write to, or one of the machine's own (/ and
// what lies in it), which root owns.
bool is_shared(const Path& dir, mode_t mode) {
  const Path plain = dir.has_filename() ? dir : dir.parent_path();
  return (mode & (S_ISVTX | S_IWOTH)) != 0 || plain == plain.root_path() || plain.parent_path() == plain.root_path();
}

}  // namespace

Status make_private_dir(const Path& dir) {
  Path sofar;
  for (const Path& part : dir) {
    sofar /= part;
    struct stat found {};
    if (::stat(sofar.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) continue;
    RAYO_RETURN_IF_ERROR(make_one_dir(sofar));
  }
  struct stat found {};
  if (::stat(dir.c_str(), &found) != 0) return failed_errno(errno, cat("cannot look at ", dir.string()));
  if (found.st_uid != ::geteuid()) {
    return failed(absl::StatusCode::kPermissionDenied,
                  cat("cannot use ", dir.string(), ": it belongs to uid ", found.st_uid),
                  "set RAYO_HOME and RAYO_RUNTIME_DIR to directories of your own");
  }
  if ((found.st_mode & 077) == 0) return {};
  if (is_shared(dir, found.st_mode)) {
    return failed(absl::StatusCode::kFailedPrecondition,
                  cat("cannot use ", dir.string(), ": others use it too, and Rayo's directories are its owner's alone"),
                  cat("set RAYO_HOME and RAYO_RUNTIME_DIR to directories of their own, such as ",
                      (dir / "rayo").lexically_normal().string()));
  }
  if (::chmod(dir.c_str(), 0700) != 0) return failed_errno(errno, cat("cannot make ", dir.string(), " private"));
  return {};
}

Status write_private_file(const Path& file, std::string_view content) {
  Path fresh = file;
  fresh += cat(".", ::getpid(), ".new");
  Fd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return failed_errno(errno, cat("cannot write ", file.string()), mend_for(errno, file.parent_path()));
  Status written = write_all(fd.get(), content, file);
  fd.reset();
  if (written.ok() && ::rename(fresh.c_str(), file.c_str()) != 0) {
    written = failed_errno(errno, cat("cannot write ", file.string()), mend_for(errno, file.parent_path()));
  }
  if (!written.ok()) ::unlink(fresh.c_str());
  return written;
}

StatusOr<std::string> read_file(const Path& file) {
  Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return failed_errno(errno, cat("cannot read ", file.string()));
  std::string content;
  char piece[8192];
  for (;;) {
    ssize_t got = ::read(fd.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed_errno(errno, cat("cannot read ", file.string()));
    if (got == 0) return content;
    content.append(piece, static_cast<size_t>(got));
    if (content.size() > kLargestFile) {
      return failed(absl::StatusCode::kInvalidArgument,
                    cat("cannot read ", file.string(), ": it is larger than 16 MiB"));
    }
  }
}

}  // namespace rayo::base
