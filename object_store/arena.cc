#include "object_store/arena.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>

#include "runtime/base/check.h"
#include "runtime/base/signals_blocked.h"
#include "runtime/base/text.h"
#include "runtime/base/units.h"

namespace rayo::object_store {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = 2 << 20;
constexpr unsigned kHuge2MiB = 21u << 26;  // MFD_HUGE_2MB of <linux/memfd.h>, which does not go with <sys/mman.h>
constexpr std::string_view kNextStep =
    "start with a smaller --object-store-memory, or give the machine or its cgroup more";

constexpr size_t kMappedWrite = 8 << 20;       // below, to ask for huge pages costs more than they save
constexpr size_t kCopiedByTwo = 32 << 20;      // below, a thread costs more than it saves
constexpr size_t kProbe = size_t{16} * kPage;  // what tells huge pages from small ones

// The part of an arena that holds an extent, for writing. Empty where it cannot be mapped.
class Writable {
 public:
  Writable(int fd, int64_t offset, size_t size)
      : before_(static_cast<size_t>(offset % kHugePage)), length_(before_ + size) {
    void* memory = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset - offset % kHugePage);
    if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);
  }
  ~Writable() {
    if (memory_) munmap(memory_, length_);
  }
  Writable(const Writable&) = delete;
  Writable& operator=(const Writable&) = delete;
  explicit operator bool() const { return memory_ != nullptr; }
  std::byte* extent() const { return memory_ + before_; }

 private:
  size_t before_;
  size_t length_;
  std::byte* memory_ = nullptr;
};

long faults_of_this_thread() {
  rusage usage{};
  (void)getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

// Whether first writes there cost a fault a huge page: the kernel may have had none, and what was given back to it in part is
// small since. At least kProbe bytes, which are lost.
bool has_huge_pages(std::byte* memory) {
  const long before = faults_of_this_thread();
  for (size_t at = 0; at < kProbe; at += kPage) *static_cast<volatile std::byte*>(memory + at) = std::byte{0};
  return faults_of_this_thread() - before <= 2;  // the probe may lie in two of them
}

bool may_use_two_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) > 1;
}

// A thread that no signal of the user's meets; not joinable where the machine has none left.
template <class Work>
std::thread try_thread(Work work) {
  const base::SignalsBlocked blocked;
  try {
    return std::thread(work);
  } catch (const std::system_error&) {
    return {};
  }
}

// One core moves about half of what memory takes, so a second one, where this process may use it, has a half of what takes
// milliseconds.
void copy(std::span<const std::byte> from, std::byte* to) {
  const bool by_two = from.size() >= kCopiedByTwo && may_use_two_cores();
  size_t mine = by_two ? from.size() / 2 : from.size();
  std::thread other;
  if (by_two)
    other = try_thread([=] { std::copy(from.begin() + static_cast<ptrdiff_t>(mine), from.end(), to + mine); });
  if (!other.joinable()) mine = from.size();
  std::copy(from.begin(), from.begin() + static_cast<ptrdiff_t>(mine), to);
  if (other.joinable()) other.join();
}

int64_t round_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

// A file of huge pages from the kernel's pool. Mapping reserves them, so a pool that is too small is known here and not
// by a SIGBUS at the first write.
base::Fd hugetlb(int64_t size_bytes) {
  base::Fd fd(memfd_create("rayo-arena", MFD_CLOEXEC | MFD_HUGETLB | kHuge2MiB));
  if (!fd || ftruncate(fd.get(), size_bytes) != 0) return {};
  void* memory = mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return {};
  munmap(memory, static_cast<size_t>(size_bytes));
  return fd;
}

// An unnamed file on a tmpfs mounted nowhere, with huge pages wherever the kernel has them.
base::Fd huge_tmpfs(int64_t size_bytes) {
  base::Fd context(static_cast<int>(syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC)));
  if (!context) return {};
  auto set = [&](const char* key, const char* value) {
    return syscall(SYS_fsconfig, context.get(), FSCONFIG_SET_STRING, key, value, 0) == 0;
  };
  if (!set("huge", "within_size") || !set("mode", "0700") || !set("size", base::cat(size_bytes).c_str())) return {};
  if (syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
  base::Fd mount(static_cast<int>(syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
  if (!mount) return {};
  base::Fd fd(openat(mount.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd || ftruncate(fd.get(), size_bytes) != 0) return {};
  return fd;
}

}  // namespace

base::StatusOr<Arena> Arena::create(int64_t size_bytes) {
  RAYO_CHECK(size_bytes > 0, "the raylet computes the size from what the machine has");
  int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  if (size_bytes > machine) {
    return base::failed(absl::StatusCode::kResourceExhausted,
                        base::cat("cannot create an arena of ", base::format_size(size_bytes), ": the machine has ",
                                  base::format_size(machine)),
                        kNextStep);
  }
  int64_t huge = round_up(size_bytes, kHugePage);
  if (base::Fd fd = hugetlb(huge)) return Arena(std::move(fd), huge, "hugetlb");
  if (base::Fd fd = huge_tmpfs(huge)) return Arena(std::move(fd), huge, "tmpfs huge");
  int64_t plain = round_up(size_bytes, kPage);
  base::Fd fd(memfd_create("rayo-arena", MFD_CLOEXEC));
  if (!fd || ftruncate(fd.get(), plain) != 0) {
    return base::failed_errno(errno, base::cat("cannot create an arena of ", base::format_size(plain)), kNextStep);
  }
  return Arena(std::move(fd), plain, "memfd");
}

void Arena::discard(int64_t offset, int64_t size_bytes) {
  int64_t begin = round_up(offset, kPage);
  int64_t end = (offset + size_bytes) / kPage * kPage;
  // Failure costs memory until the arena ends, nothing else.
  if (begin < end) (void)fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin);
}

base::StatusOr<ArenaView> ArenaView::open(base::Fd fd, int64_t size_bytes) {
  void* memory = mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (memory == MAP_FAILED)
    return base::failed_errno(errno, base::cat("cannot map the arena of ", base::format_size(size_bytes)), kNextStep);
  return ArenaView(std::move(fd), static_cast<const std::byte*>(memory), size_bytes);
}

ArenaView::ArenaView(ArenaView&& other) noexcept
    : fd_(std::move(other.fd_)), memory_(std::exchange(other.memory_, nullptr)), size_bytes_(other.size_bytes_) {}

ArenaView::~ArenaView() {
  if (memory_) munmap(const_cast<std::byte*>(memory_), static_cast<size_t>(size_bytes_));
}

base::Status ArenaView::write(int64_t offset, std::span<const std::byte> bytes) {
  auto size = static_cast<int64_t>(bytes.size());
  RAYO_CHECK(offset >= 0 && size <= size_bytes_ - offset, "the raylet gave an extent that lies within its arena");
  return write_mapped(offset, bytes) ? base::Status() : write_bytes(offset, bytes);
}

bool ArenaView::write_mapped(int64_t offset, std::span<const std::byte> bytes) {
  if (bytes.size() < kMappedWrite) return false;
  const off_t hole = lseek(fd_.get(), offset, SEEK_HOLE);
  if (hole < offset + static_cast<int64_t>(bytes.size())) return false;  // a page of it is still to be found
  const Writable target(fd_.get(), offset, bytes.size());
  if (!target || !has_huge_pages(target.extent())) return false;
  copy(bytes, target.extent());
  return true;
}

base::Status ArenaView::write_bytes(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // hugetlb files take no write(): there a mapping of the extent is used, cheap since its pages are huge.
    ssize_t written = pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL) {
      const Writable target(fd_.get(), offset, bytes.size());
      if (!target) return base::failed_errno(errno, "cannot map an extent of the arena");
      std::copy(bytes.begin(), bytes.end(), target.extent());
      return base::Status();
    }
    if (written <= 0) return base::failed_errno(errno, "cannot write into the arena", kNextStep);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
  return base::Status();
}

std::span<const std::byte> ArenaView::read(int64_t offset, int64_t size_bytes) const {
  RAYO_CHECK(offset >= 0 && size_bytes >= 0 && size_bytes <= size_bytes_ - offset,
             "the raylet names extents within its arena");
  return {memory_ + offset, static_cast<size_t>(size_bytes)};
}

}  // namespace rayo::object_store
