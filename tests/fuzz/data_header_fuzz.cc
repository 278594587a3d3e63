// If this finds something, 64 bytes from anywhere crash a daemon, or a header means two things.
#include <algorithm>
#include <span>

#include "runtime/rpc/data_header.h"
#include "tests/fuzz/seeds.h"

namespace rayo {
namespace {
const rpc::LinkKeys kKeys = rpc::LinkKeys::of_data(rpc::Secret{1, 2, 3});
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> made;
  for (auto kind : {rpc::LinkKind::kJoin, rpc::LinkKind::kCall, rpc::LinkKind::kData, rpc::LinkKind::kDriver}) {
    auto bytes = rpc::encode(rpc::make_data_header(kind, true, {7}, kKeys));
    made.emplace_back(bytes.begin(), bytes.end());
  }
  return made;
}
}  // namespace rayo

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rayo;
  if (size < rpc::kDataHeaderBytes) return 0;
  auto header = rpc::parse_data_header(std::span<const uint8_t, rpc::kDataHeaderBytes>(data, rpc::kDataHeaderBytes));
  if (!header) return 0;
  auto bytes = rpc::encode(*header);
  fuzz::expect(std::equal(bytes.begin(), bytes.end(), data));  // what is taken has one form only
  (void)rpc::verify(*header, kKeys);
  return 0;
}
