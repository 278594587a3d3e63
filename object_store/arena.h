// The node's shared memory for large values. The raylet creates one arena and hands its descriptor to the processes of
// its node; they read through one read-only mapping and write the extents that the raylet gave them.
//
// How a value is written: with pwrite as a rule, since a first write through a mapping of 4 KiB pages costs each process
// microseconds a page (measured: 0.25 against 4.3 GB/s). Into huge pages that are there already, through a mapping for as
// long as the write: it costs nothing there, while pwrite takes 1.6 times as long as memcpy and one writer at a time. Two
// threads write the largest so. Nobody keeps a mapping for writing, so that what is sealed stays as it is; and none is made
// where pages are still to be found, as the lack of one ends a process there and is an error of pwrite.
//
//   auto arena = Arena::create(4ll << 30);            // raylet
//   auto view = ArenaView::open(std::move(fd), size);  // worker
//   view->write(offset, bytes);  ... sealed ...  std::span<const std::byte> value = view->read(offset, size);
//
// Others of the machine get nothing (the descriptor is the only way in); protection against the same user is not
// claimed. Errors: no memory, or limits of the cgroup; the next step names the flag. Any thread; the caller orders
// writes before reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/fd.h"
#include "runtime/base/status.h"

namespace rayo::object_store {

class Arena {
 public:
  // Tries huge pages of the kernel's pool, then a tmpfs of its own with huge pages (never attached to the file tree, so
  // it is gone with its last descriptor), then a plain memfd. Rounds up to whole pages of its backing.
  static base::StatusOr<Arena> create(int64_t size_bytes);

  int fd() const { return fd_.get(); }
  int64_t size_bytes() const { return size_bytes_; }
  std::string_view backing() const { return backing_; }  // "hugetlb", "tmpfs huge", "memfd"

  // Gives the pages of an extent back to the machine; their content is gone.
  void discard(int64_t offset, int64_t size_bytes);

 private:
  Arena(base::Fd fd, int64_t size_bytes, std::string_view backing)
      : fd_(std::move(fd)), size_bytes_(size_bytes), backing_(backing) {}

  base::Fd fd_;
  int64_t size_bytes_ = 0;
  std::string_view backing_;
};

class ArenaView {
 public:
  static base::StatusOr<ArenaView> open(base::Fd fd, int64_t size_bytes);
  ArenaView(ArenaView&& other) noexcept;
  ArenaView& operator=(ArenaView&&) = delete;
  ~ArenaView();

  base::Status write(int64_t offset, std::span<const std::byte> bytes);
  // Valid as long as the view; the caller holds the object, or its extent is given to another.
  std::span<const std::byte> read(int64_t offset, int64_t size_bytes) const;
  int64_t size_bytes() const { return size_bytes_; }
  int fd() const { return fd_.get(); }
  // What was read stays readable; nothing can be written any more.
  void close_file() { fd_.reset(); }

 private:
  ArenaView(base::Fd fd, const std::byte* memory, int64_t size_bytes)
      : fd_(std::move(fd)), memory_(memory), size_bytes_(size_bytes) {}
  base::Status write_bytes(int64_t offset, std::span<const std::byte> bytes);
  // False: nothing was written, pwrite is better.
  bool write_mapped(int64_t offset, std::span<const std::byte> bytes);

  base::Fd fd_;
  const std::byte* memory_ = nullptr;
  int64_t size_bytes_ = 0;
};

}  // namespace rayo::object_store
