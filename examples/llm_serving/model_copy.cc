#include "examples/llm_serving/model_copy.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "examples/llm_serving/engine/model_file.h"

namespace serving {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kChunk = 4 << 20;
constexpr size_t kAhead = 4;  // chunks asked for and not there yet

class Sum {
 public:
  Sum() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void add(const void* data, size_t bytes) { EVP_DigestUpdate(context_.get(), data, bytes); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), digest, &size);
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
      text += kDigits[digest[i] >> 4];
      text += kDigits[digest[i] & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

// Holds an exclusive lock of a file while it lives.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& file) : handle_(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    while (handle_ >= 0 && flock(handle_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (handle_ >= 0) close(handle_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const int handle_;
};

Problem cannot_write(const fs::path& file) {
  return {"cannot write " + file.string() + ": " + std::strerror(errno),
          "give the user of that node's raylet room and rights there"};
}

bool is_there(const fs::path& file, const ModelPart& part) {
  std::error_code error;
  if (fs::file_size(file, error) != part.bytes || error) return false;
  std::string sum;
  std::ifstream(file.string() + ".sha256") >> sum;
  return sum == part.sha256;
}

// One file: asks ahead, writes and adds up what comes.
Result<bool> copy_file(size_t index, const ModelPart& part, const fs::path& file, const AskChunk& ask,
                       const std::function<bool(uint64_t)>& told) {
  const fs::path unfinished = file.string() + ".part";
  std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
  if (!out) return cannot_write(unfinished);
  Sum sum;
  std::deque<AwaitChunk> coming;
  uint64_t asked = 0, written = 0;
  while (written < part.bytes) {
    for (; asked < part.bytes && coming.size() < kAhead; asked += kChunk)
      coming.push_back(ask(index, asked, std::min(kChunk, part.bytes - asked)));
    const std::vector<uint8_t> chunk = coming.front()();
    coming.pop_front();
    if (chunk.size() != std::min(kChunk, part.bytes - written))
      return Problem{part.name + " changed while it was copied", "rayo serve again"};
    sum.add(chunk.data(), chunk.size());
    out.write(reinterpret_cast<const char*>(chunk.data()), static_cast<std::streamsize>(chunk.size()));
    if (!out) return cannot_write(unfinished);
    written += chunk.size();
    if (!told(written)) return Problem{"the copy was given up", ""};
  }
  out.close();
  if (!out) return cannot_write(unfinished);
  if (sum.hex() != part.sha256) {
    fs::remove(unfinished);
    return Problem{part.name + " did not arrive as it was sent: its SHA-256 differs",
                   "rayo serve again; if it stays, test that machine's memory and disk"};
  }
  std::ofstream(file.string() + ".sha256") << part.sha256 << "\n";
  std::error_code error;
  fs::rename(unfinished, file, error);
  if (error) return Problem{"cannot name " + file.string() + ": " + error.message(), ""};
  return true;
}

Result<bool> check_room(const fs::path& folder, uint64_t missing) {
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) != 0) return true;
  const uint64_t free_bytes = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free_bytes >= missing) return true;
  return Problem{"no_space: the model needs " + bytes_text(missing) + " more in " + folder.string() + ", and " +
                     bytes_text(free_bytes) + " is free there",
                 "make room, or set RAYO_HOME of that node's raylet to a larger disk"};
}

Result<std::string> copy_all(const std::vector<ModelPart>& parts, const fs::path& folder, const AskChunk& ask,
                             const CopyProgress& progress) {
  uint64_t all = 0, missing = 0;
  for (const ModelPart& part : parts) {
    all += part.bytes;
    if (!is_there(folder / part.name, part)) missing += part.bytes;
  }
  if (const Result<bool> room = check_room(folder, missing); !room) return room.problem();
  uint64_t before = all - missing;
  for (size_t i = 0; i < parts.size(); ++i) {
    const fs::path file = folder / parts[i].name;
    if (is_there(file, parts[i])) continue;
    const auto told = [&](uint64_t written) {
      return !progress || progress(static_cast<double>(before + written) / static_cast<double>(all));
    };
    if (const Result<bool> copied = copy_file(i, parts[i], file, ask, told); !copied) return copied.problem();
    before += parts[i].bytes;
  }
  return (folder / parts[0].name).string();
}

}  // namespace

Result<std::vector<ModelPart>> describe_files(const std::vector<std::string>& paths) {
  std::vector<ModelPart> parts;
  std::vector<char> buffer(1 << 20);
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    ModelPart part{.name = fs::path(path).filename().string(), .bytes = 0, .sha256 = {}};
    Sum sum;
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), in.gcount() > 0) {
      sum.add(buffer.data(), static_cast<size_t>(in.gcount()));
      part.bytes += static_cast<uint64_t>(in.gcount());
    }
    if (!in.eof()) return Problem{"cannot read " + path + ": " + std::strerror(errno), ""};
    part.sha256 = sum.hex();
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<std::string> copy_model(const std::vector<ModelPart>& parts, const fs::path& folder, const AskChunk& ask,
                               const CopyProgress& progress) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Problem{"cannot make " + folder.string() + ": " + error.message(), ""};
  const FolderLock lock(folder / ("." + parts.at(0).name + ".lock"));
  try {
    return copy_all(parts, folder, ask, progress);
  } catch (const std::exception& failure) {
    return Problem{std::string("the model's files did not arrive: ") + failure.what(), "rayo serve again"};
  }
}

}  // namespace serving
