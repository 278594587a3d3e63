// Where a program lies.
#pragma once

#include <string>
#include <string_view>

namespace rayo::base {

// The absolute path of a program that may be run: `name` itself where it is a path, else the first of that name in the
// folders of `search` (as PATH has them). "" where there is none.
std::string find_program(std::string_view name, std::string_view search);
// In those of this process's PATH.
std::string find_program(std::string_view name);

}  // namespace rayo::base
