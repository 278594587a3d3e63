// Where the cluster's token comes from on a machine that has no session of it: never from argv, which others
// can read.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/cli/terminal.h"

namespace rayo::cli {

struct TokenSearch {
  base::Status status;  // NotFound: nowhere; InvalidArgument: what was found is no token
  std::string token;
};

// In this order: `file` (of --token-file), RAYO_TOKEN, RAYO_TOKEN_FILE, the terminal where there is one.
TokenSearch find_token(const std::string& file, std::string_view question, Terminal& terminal);

}  // namespace rayo::cli
