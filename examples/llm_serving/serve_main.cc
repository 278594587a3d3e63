// rayo-serve: an OpenAI endpoint over the nodes of a cluster (`rayo serve MODEL`).
#include <cstdio>
#include <string_view>

#include <rayo/rayo.h>

#include "examples/llm_serving/load/load_run.h"
#include "examples/llm_serving/printed.h"
#include "examples/llm_serving/serve_command.h"

namespace {

int say(const serving::Ending& ending) {
  if (ending.what.empty()) return ending.code;
  std::fprintf(stderr, "rayo: %s\n", ending.what.c_str());
  std::fprintf(stderr, "try: %s\n", ending.next.empty() ? "rayo serve --help" : ending.next.c_str());
  return ending.code;
}

// False: there is no cluster, and `own`, one of this program's own, would do nothing.
bool join(int argc, char** argv, bool own) {
  try {
    rayo::init(argc, argv, {.address = own ? "" : "auto"});
    return true;
  } catch (const rayo::Unavailable&) {
    if (own || serving::cluster_runs()) throw;
    return false;
  }
}

serving::Ending no_cluster(bool serves) {
  if (serves)
    return {.code = 3,
            .what = "cannot serve with --detach: no cluster is running here that it could live in",
            .next = "rayo start --head, then the same command"};
  return {.code = 3,
          .what = "no cluster is running here; a rayo serve that began without one is reached by its URL alone",
          .next = "rayo start --head, then rayo serve MODEL"};
}

int run(int argc, char** argv) {
  using Verb = serving::ServeOptions::Verb;
  if (argc > 1 && argv[1] == std::string_view("bench")) return serving::load::bench({argv + 2, argv + argc});
  const auto parsed = serving::parse_serve_options({argv + 1, argv + argc});
  if (const auto* error = std::get_if<serving::UsageError>(&parsed))
    return say({.code = 2, .what = "cannot serve: " + error->what, .next = error->next});
  const auto& options = std::get<serving::ServeOptions>(parsed);
  if (options.verb == Verb::kHelp) {
    serving::print("%s", serving::serve_usage().c_str());
    return 0;
  }
  const bool serves = options.verb == Verb::kServe;
  try {
    if (!join(argc, argv, serves && !options.detach)) return say(no_cluster(serves));
    return say(serves ? serving::serve(options) : serving::control(options));
  } catch (const rayo::Unavailable& error) {
    return say({.code = 3, .what = error.text(), .next = error.next_step()});
  } catch (const rayo::Error& error) {
    return say({.code = 1, .what = error.text(), .next = error.next_step()});
  }
}

}  // namespace

int main(int argc, char** argv) {
  serving::hold_standard_descriptors();
  if (rayo::is_worker()) rayo::init(argc, argv);  // an engine: never returns
  return serving::printed(run(argc, argv));
}
