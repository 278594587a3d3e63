// What <rayo/internal/registry.h> declares. The list grows before main and at dlopen, from static
// initialisers of any order: so its head is constant-initialised and it allocates nothing; it is searched
// through a table made at the first look-up.
#include <mutex>
#include <string_view>
#include <unordered_map>

#include <rayo/internal/registry.h>

namespace rayo {
inline namespace v0 {
namespace internal {

namespace {
constinit Function* g_functions = nullptr;
constinit std::mutex g_lock;

struct Table {
  const Function* newest = nullptr;  // the list's head when the table was made
  std::unordered_map<uint64_t, const Function*> by_id;
  std::unordered_map<std::string_view, std::vector<const Function*>> by_last_part;  // those that may be called by name
};

// What is behind the last "::": equal for a name and each of its endings that begin behind a "::".
std::string_view last_part(std::string_view name) {
  const size_t colons = name.rfind("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

// Caller holds g_lock. dlopen may have added functions since.
const Table& table() {
  static Table* const table = new Table;  // never destroyed: threads look up until the process ends
  for (const Function* f = g_functions; f != table->newest; f = f->next) {
    table->by_id.try_emplace(f->id, f);
    if (*f->parameters != 0) table->by_last_part[last_part(f->name)].push_back(f);
  }
  table->newest = g_functions;
  return *table;
}
}  // namespace

void register_function(Function& function) {
  std::lock_guard lock(g_lock);
  function.next = g_functions;
  g_functions = &function;
}

const Function* find_function(uint64_t id) {
  std::lock_guard lock(g_lock);
  const auto& by_id = table().by_id;
  auto found = by_id.find(id);
  return found == by_id.end() ? nullptr : found->second;
}

std::vector<const Function*> all_functions() {
  std::lock_guard lock(g_lock);
  std::vector<const Function*> all;
  for (const Function* f = g_functions; f != nullptr; f = f->next) all.push_back(f);
  return all;
}

std::vector<const Function*> find_functions(FunctionKind kind, std::string_view owner, std::string_view name) {
  std::vector<const Function*> exact;
  std::vector<const Function*> found;
  std::lock_guard lock(g_lock);
  const auto& by_last_part = table().by_last_part;
  const auto likely = by_last_part.find(last_part(name));
  if (likely == by_last_part.end()) return {};
  for (const Function* f : likely->second) {
    const std::string_view full = f->name;
    if (f->kind != kind || f->owner != owner || !full.ends_with(name)) continue;
    if (full == name) exact.push_back(f);
    if (full == name || full.substr(0, full.size() - name.size()).ends_with("::")) found.push_back(f);
  }
  return exact.empty() ? found : exact;
}

namespace {
// Static, or in an anonymous namespace: the mangled name does not say of which file.
bool internal_linkage(std::string_view mangled) {
  return mangled.find("_ZL") != std::string_view::npos || mangled.find("_GLOBAL__N_") != std::string_view::npos;
}
}  // namespace

std::string registry_collision() {
  std::lock_guard lock(g_lock);
  const auto& by_id = table().by_id;
  for (const Function* f = g_functions; f != nullptr; f = f->next) {
    const Function* first = by_id.at(f->id);
    const std::string_view mangled = f->mangled;
    if (mangled != first->mangled) return std::string(first->mangled) + " and " + f->mangled;
    if (f->invoke != first->invoke && internal_linkage(mangled))
      return std::string(f->name) + ", which two files have for themselves (static, or in an anonymous namespace)";
  }
  return {};
}

}  // namespace internal
}  // namespace v0
}  // namespace rayo
