#include "runtime/rpc/doorbell.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rayo::rpc {
namespace {

constexpr size_t kPageBytes = 4096;

// A full counter (EAGAIN) has woken the reader already; there is nothing else to do about an error.
void write_event(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = ::write(fd, &one, sizeof one);
}

base::StatusOr<MappedDoorbell> map_page(int fd) {
  void* memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return base::failed_errno(errno, "cannot map a doorbell page");
  return MappedDoorbell(static_cast<DoorbellPage*>(memory));
}

}  // namespace

void UnmapDoorbell::operator()(DoorbellPage* page) const { ::munmap(page, kPageBytes); }

base::StatusOr<Doorbell> Doorbell::create() {
  DoorbellFds fds;
  fds.page = base::Fd(::memfd_create("rayo-doorbell", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fds.page) return base::failed_errno(errno, "cannot create a doorbell page");
  if (::ftruncate(fds.page.get(), kPageBytes) != 0) return base::failed_errno(errno, "cannot size a doorbell page");
  if (::fcntl(fds.page.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return base::failed_errno(errno, "cannot seal a doorbell page");
  for (base::Fd* event : {&fds.main, &fds.service}) {
    *event = base::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!*event) return base::failed_errno(errno, "cannot create an eventfd");
  }
  RAYO_ASSIGN_OR_RETURN(MappedDoorbell page, map_page(fds.page.get()));
  return Doorbell(std::move(fds), std::move(page));
}

void Doorbell::wake_main() const { write_event(fds_.main.get()); }
void Doorbell::wake_service() const { write_event(fds_.service.get()); }

base::StatusOr<PeerDoorbell> PeerDoorbell::map(DoorbellFds fds) {
  struct stat info {};
  if (::fstat(fds.page.get(), &info) != 0) return base::failed_errno(errno, "cannot look at a peer's doorbell page");
  const int seals = ::fcntl(fds.page.get(), F_GET_SEALS);
  if (info.st_size < static_cast<off_t>(kPageBytes) || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return base::failed(absl::StatusCode::kInvalidArgument, "a peer's doorbell page is no sealed page");
  for (int event : {fds.main.get(), fds.service.get()}) {
    const int flags = ::fcntl(event, F_GETFL);
    if (flags < 0 || ::fcntl(event, F_SETFL, flags | O_NONBLOCK) != 0)
      return base::failed_errno(errno, "cannot use a peer's eventfd");
  }
  RAYO_ASSIGN_OR_RETURN(MappedDoorbell page, map_page(fds.page.get()));
  fds.page.reset();
  return PeerDoorbell(std::move(fds), std::move(page));
}

void PeerDoorbell::mark(uint32_t bit) {
  auto& word = page_->ready[bit / 64 % DoorbellPage::kWords];
  const uint64_t mask = uint64_t{1} << bit % 64;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if ((word.load(std::memory_order_relaxed) & mask) == 0) word.fetch_or(mask, std::memory_order_seq_cst);
}

void PeerDoorbell::ring(uint32_t bit, bool urgent, bool look) {
  auto& word = page_->ready[bit / 64 % DoorbellPage::kWords];
  const uint64_t mask = uint64_t{1} << bit % 64;
  // The tail's store must be visible before the bit is looked at. Where the bit still stands, an earlier ring
  // of ours has looked at `armed` after it set the bit: whoever takes the bit later reads the new tail.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if ((word.load(std::memory_order_relaxed) & mask) == 0)
    word.fetch_or(mask, std::memory_order_seq_cst);
  else if (!urgent && !look)
    return;
  uint64_t armed = page_->armed.load(std::memory_order_seq_cst);
  const auto sleeping = static_cast<Sleeping>(armed & 3);
  if (sleeping == Sleeping::kMain)
    write_event(fds_.main.get());
  else if (sleeping == Sleeping::kServiceOnly && urgent)
    write_event(fds_.service.get());
  else
    return;
  page_->armed.compare_exchange_strong(armed, 0, std::memory_order_seq_cst);
}

void PeerDoorbell::kick(uint32_t bit) {
  const uint64_t mask = uint64_t{1} << bit % 64;
  if (static_cast<Sleeping>(page_->armed.load(std::memory_order_seq_cst) & 3) == Sleeping::kMain) return;
  const bool unseen = (page_->ready[bit / 64 % DoorbellPage::kWords].load(std::memory_order_seq_cst) & mask) != 0;
  const bool in_user_code = (page_->busy.load(std::memory_order_seq_cst) & 1) != 0;
  if ((unseen || in_user_code) && page_->kicked.exchange(1, std::memory_order_seq_cst) == 0)
    write_event(fds_.service.get());
}

void PeerDoorbell::ring_regardless(uint32_t bit) {
  page_->ready[bit / 64 % DoorbellPage::kWords].fetch_or(uint64_t{1} << bit % 64, std::memory_order_seq_cst);
  write_event(fds_.main.get());
  write_event(fds_.service.get());
}

}  // namespace rayo::rpc
