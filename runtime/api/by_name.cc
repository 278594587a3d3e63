// What <rayo/internal/by_name.h> declares, for programs in C++: the name is looked up among the registered functions, and
// the call goes on with that one.
#include <algorithm>
#include <string>
#include <vector>

#include <rayo/internal/by_name.h>
#include <rayo/internal/entry.h>

#include "runtime/base/text.h"

namespace rayo {
inline namespace v0 {
namespace internal {
namespace {

using base::cat;

// "add" of "shop::Counter::add".
std::string_view last_part(std::string_view name) {
  const size_t template_part = name.find('<');
  const size_t colons = name.substr(0, template_part).rfind("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

std::string title(const Function& function) { return cat(last_part(function.name), function.parameters); }

// "add(long int), get()"; classes and functions of the runtime itself are nobody's to call.
std::string titles(const std::vector<const Function*>& functions) {
  std::vector<std::string> lines;
  for (const Function* function : functions) lines.push_back(title(*function));
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += cat(text.empty() ? "" : ", ", line);
  return text;
}

std::vector<const Function*> of_kind(FunctionKind kind, std::string_view owner) {
  std::vector<const Function*> found = all_functions();
  std::erase_if(found, [&](const Function* f) { return f->kind != kind || f->owner != owner || *f->parameters == 0; });
  return found;
}

const char* noun(FunctionKind kind) {
  if (kind == FunctionKind::kTask) return "function";
  return kind == FunctionKind::kMethod ? "method" : "class that can be made";
}

[[noreturn]] void refuse_name(FunctionKind kind, std::string_view owner, std::string_view name) {
  const std::string what = owner.empty() ? std::string("this program") : cat("the C++ class ", owner);
  const std::string known = titles(of_kind(kind, owner));
  throw Invalid({.kind = ErrorKind::kInvalid,
                 .text = cat(what, " has no ", noun(kind), " '", name, "' for other languages"),
                 .next_step = cat(known.empty() ? "there is none" : cat("there is ", known),
                                  "; what the program does not call itself it lists with rayo::expose")});
}

// The one function of that name which takes so many arguments.
const Function& find_one(FunctionKind kind, std::string_view owner, std::string_view name, size_t arguments) {
  std::vector<const Function*> named = find_functions(kind, owner, name);
  if (named.empty()) refuse_name(kind, owner, name);
  std::vector<const Function*> fitting = named;
  std::erase_if(fitting, [&](const Function* f) { return f->parameter_count != arguments; });
  if (fitting.empty())
    throw Invalid(
        {.kind = ErrorKind::kInvalid,
         .text = cat(named[0]->name, " was called with ", arguments, " arguments: it takes ", titles(named))});
  if (fitting.size() > 1)
    throw Invalid({.kind = ErrorKind::kInvalid,
                   .text = cat("'", name, "' names ", fitting.size(), " things of this program: ", fitting[0]->name,
                               fitting[0]->parameters, ", ", fitting[1]->name, fitting[1]->parameters),
                   .next_step = "write the name with its namespace, or give one of them another"});
  return *fitting[0];
}

// Leaves in the call what the function of that name takes.
const Function& open_call(Invocation& call, FunctionKind kind, std::string_view owner) {
  Decoder in(call.arguments, "a call by name");
  in.array_of(2);
  const std::string_view name = in.text();
  const size_t begin = in.position();
  const size_t count = in.array();
  call.arguments = call.arguments.subspan(begin);
  call.portable = true;
  call.named = &find_one(kind, owner, name, count);
  return *call.named;
}

void run_task(Invocation& call) { open_call(call, FunctionKind::kTask, "").invoke(call); }

void run_constructor(Invocation& call) {
  const Function& constructor = open_call(call, FunctionKind::kConstructor, "");
  call.made_by = &constructor;
  constructor.invoke(call);
}

void run_method(Invocation& call) {
  const char* owner = call.made_by == nullptr ? "" : call.made_by->name;
  open_call(call, FunctionKind::kMethod, owner).invoke(call);
}

void describe(Invocation& call) {
  std::vector<const Function*> functions = all_functions();
  std::erase_if(functions, [](const Function* f) { return *f->parameters == 0; });
  Encoder out;
  out.array(functions.size());
  for (const Function* f : functions) {
    out.array(6);
    out.unsigned_integer(static_cast<uint64_t>(f->kind));
    out.text(f->owner);
    out.text(f->kind == FunctionKind::kMethod ? last_part(f->name) : std::string_view(f->name));
    out.text(f->parameters);
    out.unsigned_integer(f->parameter_count);
    out.text(f->result);
  }
  finish_result(call, out);
}

}  // namespace

void answer_named_calls() {
  if (find_function(kNamedMethod) != nullptr) return;
  static RegisteredFunction functions[] = {
      RegisteredFunction(
          {.kind = FunctionKind::kTask, .mangled = "rayo.named.task", .name = "a function", .invoke = run_task}),
      RegisteredFunction({.kind = FunctionKind::kConstructor,
                          .mangled = "rayo.named.constructor",
                          .name = "a class",
                          .invoke = run_constructor}),
      RegisteredFunction(
          {.kind = FunctionKind::kMethod, .mangled = "rayo.named.method", .name = "a method", .invoke = run_method}),
      RegisteredFunction(
          {.kind = FunctionKind::kTask, .mangled = "rayo.named.describe", .name = "describe", .invoke = describe}),
  };
  static_cast<void>(functions);
}

}  // namespace internal
}  // namespace v0
}  // namespace rayo
