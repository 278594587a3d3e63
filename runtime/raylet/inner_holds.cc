#include "runtime/raylet/inner_holds.h"

#include <utility>

namespace rayo::raylet {
namespace {

template <class Id>
std::vector<Id> firsts(std::unordered_map<Id, int>& counts, const std::vector<Id>& ids) {
  std::vector<Id> out;
  for (const Id& id : ids)
    if (counts[id]++ == 0) out.push_back(id);
  return out;
}

template <class Id>
std::vector<Id> lasts(std::unordered_map<Id, int>& counts, const std::vector<Id>& ids) {
  std::vector<Id> out;
  for (const Id& id : ids) {
    auto found = counts.find(id);
    if (--found->second != 0) continue;
    counts.erase(found);
    out.push_back(id);
  }
  return out;
}

}  // namespace

InnerHolds::Inside InnerHolds::keep(const ObjectId& object, Inside inside) {
  if (inside.empty()) return {};
  auto [at, fresh] = values_.try_emplace(object, std::move(inside));
  if (!fresh) return {};
  return {firsts(refs_, at->second.refs), firsts(actors_, at->second.actors)};
}

InnerHolds::Inside InnerHolds::let_go(const ObjectId& object) {
  auto value = values_.extract(object);
  if (value.empty()) return {};
  return {lasts(refs_, value.mapped().refs), lasts(actors_, value.mapped().actors)};
}

}  // namespace rayo::raylet
