// Running a registered function: what its code throws becomes the ErrorRecord that its caller gets.
//
//   internal::Invocation call{.self = actor, .arguments = bytes, .result = &value};
//   if (auto error = base::invoke(*function, call)) reply_with(*error);
//
// User code that throws: kTask with the thrown type, its message and the stack of the place that threw. A
// Rayo error that user code lets through (of a call of its own): kTask too, with the inner error's text.
// Arguments that do not decode or hold an error themselves: that error, unchanged. Any thread; nothing is
// thrown (but the forced unwinding of an ending thread or fiber).
#pragma once

#include <optional>
#include <string>
#include <typeinfo>

#include <rayo/internal/registry.h>

namespace rayo::base {

std::optional<ErrorRecord> invoke(const internal::Function& function, internal::Invocation& invocation);

// As C++ spells it.
std::string demangled(const std::type_info& type);

}  // namespace rayo::base
