#include "runtime/worker/hello.h"

#include <algorithm>
#include <cstring>
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

constexpr base::Duration kHelloTimeout = std::chrono::seconds(10);  // a raylet answers at once
constexpr int64_t kPackageChunk = 1 << 20;

base::TimePoint in(base::Duration span) { return base::deadline_after(base::system_clock().now(), span); }

base::Status status_of(const proto::Failure& failure) {
  const auto code =
      failure.kind() == proto::INVALID ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable;
  return base::failed(code, failure.text(), failure.next_step());
}

base::StatusOr<PackageId> hash_file(int fd, int64_t size, const std::string& path) {
  void* memory = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (memory == MAP_FAILED) return base::failed_errno(errno, base::cat("cannot read ", path));
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

}  // namespace

base::StatusOr<ProgramFile> read_program(const std::string& path) {
  ProgramFile program{.file = base::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))};
  struct stat facts {};
  if (!program.file || ::fstat(program.file.get(), &facts) != 0)
    return base::failed(absl::StatusCode::kInvalidArgument,
                        base::cat("cannot open the program ", path, ": ", ::strerror(errno)));
  char magic[4] = {};
  const bool elf = S_ISREG(facts.st_mode) && ::pread(program.file.get(), magic, sizeof magic, 0) == sizeof magic &&
                   std::memcmp(magic,
                               "\x7f"
                               "ELF",
                               sizeof magic) == 0;
  if (!elf || (facts.st_mode & 0111) == 0)
    return base::failed(absl::StatusCode::kInvalidArgument, base::cat(path, " is no executable program"),
                        "name a C++ program that was built with Rayo and calls rayo::init");
  program.size_bytes = facts.st_size;
  RAYO_ASSIGN_OR_RETURN(program.package, hash_file(program.file.get(), facts.st_size, path));
  return program;
}

base::Status in_chunks(const ProgramFile& program, const std::function<void(proto::ToRaylet&)>& send) {
  std::string buffer;
  for (int64_t at = 0; at < program.size_bytes;) {
    buffer.resize(static_cast<size_t>(std::min(program.size_bytes - at, kPackageChunk)));
    const ssize_t got = ::pread(program.file.get(), buffer.data(), buffer.size(), at);
    if (got <= 0) return base::failed_errno(errno, "cannot read a program's file");
    proto::ToRaylet message;
    proto::PackageChunk& chunk = *message.mutable_package_chunk();
    set_id(chunk.mutable_package(), program.package);
    chunk.set_offset(at);
    chunk.set_data(buffer.data(), static_cast<size_t>(got));
    at += got;
    chunk.set_last(at == program.size_bytes);
    send(message);
  }
  return absl::OkStatus();
}

base::StatusOr<PackageId> offer_program(RayletSocket& raylet) {
  RAYO_ASSIGN_OR_RETURN(const ProgramFile program, read_program("/proc/self/exe"));
  proto::ToRaylet message;
  proto::OfferPackage& offer = *message.mutable_offer_package();
  set_id(offer.mutable_package(), program.package);
  offer.set_size_bytes(program.size_bytes);
  RAYO_RETURN_IF_ERROR(raylet.send(2, message));
  RAYO_ASSIGN_OR_RETURN(bool needed, package_needed(raylet));
  if (!needed) return program.package;
  if (raylet.remote()) {
    base::Status sent;
    RAYO_RETURN_IF_ERROR(in_chunks(program, [&](proto::ToRaylet& chunk) {
      if (sent.ok()) sent = raylet.send(chunk.package_chunk().last() ? 3 : 0, chunk);
    }));
    RAYO_RETURN_IF_ERROR(sent);
  } else {
    offer.set_with_file(true);
    const int fd = program.file.get();
    RAYO_RETURN_IF_ERROR(raylet.send(3, message, {&fd, 1}));
  }
  RAYO_ASSIGN_OR_RETURN(needed, package_needed(raylet));
  if (needed)
    return base::failed(absl::StatusCode::kUnavailable, "the raylet did not take this program", "see the raylet's log");
  return program.package;
}

}  // namespace rayo::worker
