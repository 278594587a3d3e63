// If this finds something, a damaged rayo.toml or a daemon's line of readiness crashes a command.
#include "runtime/base/config.h"
#include "runtime/base/settings.h"
#include "tests/fuzz/seeds.h"

std::vector<std::string> rayo::fuzz::seeds() {
  std::string all;
  std::string table;
  for (const base::Setting& setting : base::all_settings()) {
    std::string key(setting.key);
    size_t dot = key.find('.');
    if (key.substr(0, dot) != table) all += "[" + (table = key.substr(0, dot)) + "]\n";
    all += key.substr(dot + 1) + " = \"" + std::string(setting.by_default) + "\"  # why\n";
  }
  return {all, "a.b = 'c'\n[x]\n\"y\" = [1, 2]\n",
          R"({"ok": true, "address": "10.0.0.5:6379", "http": "h", "cluster": "00", "notes": ["n"], "exit_code": 3})"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rayo;
  std::string_view text = fuzz::text(data, size);
  auto config = base::Config::parse(text, "rayo.toml");
  if (config.ok()) fuzz::expect(base::Config::from_head(config->values()).values() == config->values());
  (void)base::read_ready(text);
  return 0;
}
