// The version of this build. Nodes of one minor version work together (runtime/rpc/join.h compares).
#pragma once

#include <string_view>

namespace rayo::base {

// The same as project(VERSION) in CMakeLists.txt: tests/runtime/base/version_test.cc compares.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace rayo::base
