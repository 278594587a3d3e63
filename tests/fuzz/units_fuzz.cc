// If this finds something, a size or duration of a flag or of rayo.toml crashes a command or turns negative.
#include "runtime/base/units.h"
#include "tests/fuzz/seeds.h"

std::vector<std::string> rayo::fuzz::seeds() {
  return {"512MiB", "8GiB", "1000", "1.5TB", "500ms", "10s", "5m", "2h", "1d", "0.1us", "9223372036854775807",
          "1e300s"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rayo;
  auto bytes = base::parse_size(fuzz::text(data, size));
  if (bytes.ok()) fuzz::expect(*bytes >= 0 && !base::format_size(*bytes).empty());
  auto span = base::parse_duration(fuzz::text(data, size));
  if (span.ok()) fuzz::expect(*span >= base::Duration::zero() && !base::format_duration(*span).empty());
  return 0;
}
