#include "runtime/base/invoke.h"

#include <cstdlib>
#include <cxxabi.h>
#include <exception>
#include <memory>
#include <typeinfo>

#include "runtime/base/text.h"
#include "runtime/base/throw_trace.h"

namespace rayo::base {

std::string demangled(const std::type_info& type) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : type.name();
}

namespace {

std::string thrown_type() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  return type == nullptr ? "an exception of another language" : demangled(*type);
}

// In a catch block: the message of what is handled.
std::string thrown_text() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (const std::string& text) {
    return text;
  } catch (const char* text) {
    return text == nullptr ? "" : text;
  } catch (...) {
    return {};
  }
}

// In a catch block: an error of the user's code.
ErrorRecord of_user_code(const internal::Function& function, const ThrowTrace& trace) {
  ErrorRecord record{.kind = ErrorKind::kTask};
  record.remote_type = thrown_type();
  record.stack = trace.stack(std::current_exception());
  const std::string text = thrown_text();
  record.text = cat(function.name, " threw ", record.remote_type, text.empty() ? "" : ": ", text);
  return record;
}

}  // namespace

// An argument that does not decode: which one of what function.
ErrorRecord of_arguments(const internal::Function& function, const internal::Invocation& call, ErrorRecord record) {
  if (record.kind != ErrorKind::kTypeMismatch || call.argument == 0) return record;
  record.text = cat("argument ", call.argument, " of ", function.name, function.parameters, ": ", record.text);
  return record;
}

std::optional<ErrorRecord> invoke(const internal::Function& function, internal::Invocation& invocation) {
  ThrowTrace trace;
  const auto called = [&]() -> const internal::Function& { return invocation.named ? *invocation.named : function; };
  try {
    function.invoke(invocation);
    return std::nullopt;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (const TaskError& inner) {
    if (!invocation.in_user_code || inner.system()) return inner.record();
    ErrorRecord record = inner.record();  // the first place that threw is what the reader looks for
    record.text = cat(called().name, " let through: ", record.text);
    return record;
  } catch (const Error& inner) {
    if (!invocation.in_user_code) return of_arguments(called(), invocation, inner.record());
    ErrorRecord record = of_user_code(called(), trace);
    record.text = cat(called().name, " let through ", record.remote_type, ": ", inner.text());
    record.next_step = inner.next_step();
    record.death = inner.record().death;
    return record;
  } catch (...) {
    return of_user_code(called(), trace);
  }
}

}  // namespace rayo::base
