#include "runtime/rpc/ring.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rayo::rpc {
namespace {

base::StatusOr<Mapped> map(int fd, size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return base::failed_errno(errno, "cannot map a ring");
  return Mapped(static_cast<std::byte*>(memory), Unmap{bytes});
}

RingHeader* headers(std::byte* memory) { return reinterpret_cast<RingHeader*>(memory); }

void close_both(std::byte* memory) {
  for (int i = 0; i < 2; ++i) headers(memory)[i].closed.store(1, std::memory_order_seq_cst);
}

bool either_closed(std::byte* memory) {
  return headers(memory)[0].closed.load(std::memory_order_acquire) != 0 ||
         headers(memory)[1].closed.load(std::memory_order_acquire) != 0;
}

}  // namespace

void Unmap::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

void ClosedMark::close() {
  if (page_) close_both(page_.get());
}
bool ClosedMark::closed() const { return page_ && either_closed(page_.get()); }

base::StatusOr<RingPair> RingPair::create() {
  base::Fd fd(::memfd_create("rayo-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return base::failed_errno(errno, "cannot create a ring");
  if (::ftruncate(fd.get(), kRingPairBytes) != 0) return base::failed_errno(errno, "cannot size a ring");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return base::failed_errno(errno, "cannot seal a ring");
  RAYO_ASSIGN_OR_RETURN(Mapped page, map(fd.get(), kRingHeaderBytes));
  return RingPair{std::move(fd), ClosedMark(std::move(page))};
}

base::StatusOr<RingMemory> RingMemory::map(base::Fd fd) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return base::failed_errno(errno, "cannot look at a ring");
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (info.st_size != static_cast<off_t>(kRingPairBytes) || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return base::failed(absl::StatusCode::kInvalidArgument, "a ring's memory has the wrong size or no seals");
  RAYO_ASSIGN_OR_RETURN(Mapped memory, rpc::map(fd.get(), kRingPairBytes));
  return RingMemory(std::move(memory));
}

RingView RingMemory::ring(int index) const {
  return {headers(memory_.get()) + index, memory_.get() + kRingHeaderBytes + index * kRingBytes};
}
bool RingMemory::closed() const { return either_closed(memory_.get()); }
void RingMemory::close() { close_both(memory_.get()); }

void RingWriter::copy_in(const void* from, size_t bytes) {
  const auto* source = static_cast<const std::byte*>(from);
  const size_t at = tail_ % kRingBytes;
  const size_t first = std::min<size_t>(bytes, kRingBytes - at);
  if (first != 0) std::memcpy(ring_.data + at, source, first);
  if (first != bytes) std::memcpy(ring_.data, source + first, bytes - first);
  tail_ += bytes;
}

bool RingWriter::refresh() {
  const uint64_t head = ring_.header->head.load(std::memory_order_acquire);
  if (head < head_ || head > published_ || head % 8 != 0) corrupt_ = true;
  if (corrupt_) return false;
  head_ = head;
  return true;
}

namespace {
// The reader's core has had these lines since its last lap: asked for now, they are here when the next frames are written,
// and no lock that is given up meanwhile waits for them.
void fetch_ahead(const std::byte* ring, uint64_t tail, uint64_t bytes) {
  constexpr uint64_t kLine = 64, kAhead = 4 * kLine;
  const uint64_t end = tail + std::min(bytes, kAhead) + kAhead;
  for (uint64_t at = (tail + kAhead + kLine - 1) & ~(kLine - 1); at < end; at += kLine)
    asm volatile("prefetchw %0" : : "m"(ring[at % kRingBytes]));
}
}  // namespace

Push RingWriter::push(const FrameHeader& header, std::span<const Bytes> parts) {
  const uint64_t bytes = record_bytes(header.length);
  if (!room(bytes)) return corrupt_ ? Push::kCorrupt : Push::kFull;
  const uint64_t end = tail_ + bytes;
  fetch_ahead(ring_.data, tail_, bytes);
  copy_in(&header, sizeof header);
  for (Bytes part : parts) copy_in(part.data(), part.size());
  tail_ = end;
  return Push::kDone;
}

Push RingWriter::push_records(Bytes records, size_t& taken) {
  taken = 0;
  if (!refresh()) return Push::kCorrupt;
  const size_t space = kRingBytes - (tail_ - head_);
  while (taken < records.size()) {
    FrameHeader header;
    std::memcpy(&header, records.data() + taken, sizeof header);
    const size_t record = record_bytes(header.length);
    if (taken + record > space) break;
    taken += record;
  }
  copy_in(records.data(), taken);
  return taken == records.size() ? Push::kDone : Push::kFull;
}

bool RingWriter::ask_for_room(uint64_t bytes) {
  if (room(bytes)) return true;
  if (corrupt_) return false;
  ring_.header->want.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return room(bytes);
}

bool RingReader::drain(FlatBuffer& out) {
  const uint64_t tail = ring_.header->tail.load(std::memory_order_acquire);
  const uint64_t bytes = tail - head_;
  if (bytes == 0) return true;
  if (bytes > kRingBytes || bytes % 8 != 0) return false;
  const size_t at = head_ % kRingBytes;
  const size_t first = std::min<size_t>(bytes, kRingBytes - at);
  out.append(ring_.data + at, first);
  out.append(ring_.data, bytes - first);
  head_ = tail;
  if (head_ - published_ >= kCreditBytes) {
    published_ = head_;
    ring_.header->head.store(head_, std::memory_order_seq_cst);
    credit_given_ = true;
  }
  return true;
}

bool RingReader::writer_waits() {
  if (!credit_given_) return false;
  credit_given_ = false;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return ring_.header->want.load(std::memory_order_seq_cst) != 0;
}

}  // namespace rayo::rpc
