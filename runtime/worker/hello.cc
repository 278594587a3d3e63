#include "runtime/worker/hello.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/base/session.h"
#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/worker/failure.h"
#include "runtime/worker/raylet_link.h"

extern "C" char** environ;

namespace rayo::worker {

namespace {

// A raylet answers at once; a package of some 100 MB has to be copied and hashed.
constexpr base::Duration kHelloTimeout = std::chrono::seconds(10);
constexpr base::Duration kPackageTimeout = std::chrono::seconds(60);
constexpr int64_t kPackageChunk = 1 << 20;

base::TimePoint in(base::Duration span) { return base::deadline_after(base::system_clock().now(), span); }

base::Status status_of(const proto::Failure& failure) {
  const auto code =
      failure.kind() == proto::INVALID ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable;
  return base::failed(code, failure.text(), failure.next_step());
}

base::StatusOr<PackageId> hash_file(int fd, int64_t size) {
  void* memory = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (memory == MAP_FAILED) return base::failed_errno(errno, "cannot read this program's file");
  const XXH128_hash_t hash = ::XXH3_128bits(memory, static_cast<size_t>(size));
  ::munmap(memory, static_cast<size_t>(size));
  return PackageId{hash.high64, hash.low64};
}

}  // namespace

int count_threads() {
  int count = 0;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    (void)task;
    ++count;
  }
  return count;
}

proto::Hello make_hello(proto::ProcessKind kind, const ProcessId& process, const std::vector<std::string>& arguments) {
  proto::Hello hello;
  hello.set_version(std::string(base::kVersion));
  hello.set_kind(kind);
  set_id(hello.mutable_process(), process);
  hello.set_pid(::getpid());
  std::error_code error;
  hello.set_program(std::filesystem::read_symlink("/proc/self/exe", error).string());
  for (const std::string& argument : arguments) hello.add_arguments(argument);
  hello.set_working_directory(std::filesystem::current_path(error).string());
  if (kind == proto::DRIVER)
    for (char** variable = environ; *variable; ++variable)
      if (!base::holds_token(*variable)) hello.add_environment(*variable);
  hello.set_threads(count_threads());
  return hello;
}

base::StatusOr<Welcome> say_hello(RayletSocket& raylet, const proto::Hello& hello, const rpc::Doorbell* doorbell) {
  proto::ToRaylet message;
  *message.mutable_hello() = hello;
  std::vector<int> fds;
  if (doorbell) fds = {doorbell->page_fd(), doorbell->main_fd(), doorbell->service_fd()};
  RAYO_RETURN_IF_ERROR(raylet.send(1, message, fds));
  RAYO_ASSIGN_OR_RETURN(ReceivedFrame frame, raylet.receive(in(kHelloTimeout)));
  if (const proto::Failure* failure = failure_in(frame.message)) return status_of(*failure);
  if (!frame.message.has_hello_reply())
    return base::failed(absl::StatusCode::kUnavailable, "the raylet did not answer the hello",
                        "use programs of one version");
  return Welcome{std::move(*frame.message.mutable_hello_reply()), std::move(frame.fds)};
}

namespace {

// The raylet's word about the package, past whatever else it has to say.
base::StatusOr<bool> package_needed(RayletSocket& raylet) {
  while (true) {
    RAYO_ASSIGN_OR_RETURN(const ReceivedFrame frame, raylet.receive(in(kPackageTimeout)));
    if (!frame.message.has_package_reply()) continue;
    if (const proto::Failure* failure = failure_in(frame.message)) return status_of(*failure);
    return frame.message.package_reply().needed();
  }
}

base::Status send_chunks(RayletSocket& raylet, const PackageId& package, int file, int64_t size) {
  std::string buffer;
  for (int64_t at = 0; at < size;) {
    buffer.resize(static_cast<size_t>(std::min(size - at, kPackageChunk)));
    const ssize_t got = ::pread(file, buffer.data(), buffer.size(), at);
    if (got <= 0) return base::failed_errno(errno, "cannot read this program's file");
    proto::ToRaylet message;
    proto::PackageChunk& chunk = *message.mutable_package_chunk();
    set_id(chunk.mutable_package(), package);
    chunk.set_offset(at);
    chunk.set_data(buffer.data(), static_cast<size_t>(got));
    at += got;
    chunk.set_last(at == size);
    RAYO_RETURN_IF_ERROR(raylet.send(at == size ? 3 : 0, message));
  }
  return absl::OkStatus();
}

}  // namespace

base::StatusOr<PackageId> offer_program(RayletSocket& raylet) {
  base::Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0) return base::failed_errno(errno, "cannot open this program's file");
  RAYO_ASSIGN_OR_RETURN(const PackageId package, hash_file(file.get(), facts.st_size));
  proto::ToRaylet message;
  proto::OfferPackage& offer = *message.mutable_offer_package();
  set_id(offer.mutable_package(), package);
  offer.set_size_bytes(facts.st_size);
  RAYO_RETURN_IF_ERROR(raylet.send(2, message));
  RAYO_ASSIGN_OR_RETURN(bool needed, package_needed(raylet));
  if (!needed) return package;
  if (raylet.remote()) {
    RAYO_RETURN_IF_ERROR(send_chunks(raylet, package, file.get(), facts.st_size));
  } else {
    offer.set_with_file(true);
    const int fd = file.get();
    RAYO_RETURN_IF_ERROR(raylet.send(3, message, {&fd, 1}));
  }
  RAYO_ASSIGN_OR_RETURN(needed, package_needed(raylet));
  if (needed)
    return base::failed(absl::StatusCode::kUnavailable, "the raylet did not take this program", "see the raylet's log");
  return package;
}

}  // namespace rayo::worker
