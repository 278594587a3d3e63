#include "runtime/cli/token_source.h"

#include <cstdlib>

#include "runtime/base/private_file.h"
#include "runtime/base/text.h"
#include "runtime/rpc/token.h"

namespace rayo::cli {
namespace {

using base::cat;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

TokenSearch checked(std::string_view text, std::string_view from) {
  auto token = rpc::Token::parse(text);
  if (!token.ok()) return {base::within(token.status(), cat("cannot use the token of ", from)), {}};
  return {{}, token->text()};
}

TokenSearch from_file(const std::string& file) {
  auto content = base::read_file(file);
  if (!content.ok()) return {content.status(), {}};
  return checked(*content, file);
}

}  // namespace

TokenSearch find_token(const std::string& file, std::string_view question, Terminal& terminal) {
  if (!file.empty()) return from_file(file);
  if (std::string text = environment("RAYO_TOKEN"); !text.empty()) return checked(text, "RAYO_TOKEN");
  if (std::string name = environment("RAYO_TOKEN_FILE"); !name.empty()) return from_file(name);
  if (std::string typed = terminal.ask_secret(question); !typed.empty()) return checked(typed, "the terminal");
  return {
      base::failed(absl::StatusCode::kNotFound, "cannot reach the cluster: its token is not here",
                   "`rayo token` on the head's machine prints the line with the token (RAYO_TOKEN, RAYO_TOKEN_FILE)"),
      {}};
}

}  // namespace rayo::cli
