// A library that is opened at run time and brings tasks of its own; it links no Rayo.
#include <rayo/rayo.h>

struct PluginState {
  int seen = 0;
  int see(int n) { return seen += n; }
};

int negate(int n) { return -n; }

extern "C" int run_plugin(int n) {
  auto state = rayo::spawn<PluginState>();
  return state.call<&PluginState::see>(rayo::remote<negate>(n)).get();
}
