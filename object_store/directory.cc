#include "object_store/directory.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/text.h"

namespace rayo::object_store {
namespace {

constexpr const char* kOnlyHolderDied = "the only node that had it died";

Known failure(proto::FailureKind kind, std::string text, const proto::DeathRecord* record) {
  Known known;
  known.kind = Known::Kind::kFailure;
  known.failure.set_kind(kind);
  known.failure.set_text(std::move(text));
  if (record) *known.failure.mutable_death() = *record;
  return known;
}

Known in_arena(int64_t size_bytes, NodeKey holder) {
  Known known;
  known.kind = Known::Kind::kArena;
  known.size_bytes = size_bytes;
  known.holder = holder;
  return known;
}

}  // namespace

Directory::Directory(NodeKey self, int64_t arena_bytes, const base::Clock& clock)
    : self_(self), clock_(clock), extents_(arena_bytes) {}

// ---- processes of this node ----

void Directory::process_joined(ProcessKey process) { processes_.insert(process); }

void Directory::process_died(ProcessKey process, const proto::DeathRecord& record) {
  processes_.erase(process);
  std::vector<ObjectId> all;
  for (const auto& [object, entry] : entries_) all.push_back(object);
  for (const ObjectId& object : all) {
    auto found = entries_.find(object);
    Entry& entry = found->second;
    if (entry.writer == process && entry.extent && !entry.is_sealed) abort(process, object);
    std::erase_if(entry.waiters, [&](const Waiter& waiter) { return waiter.process == process; });
    entry.pins.erase(process);
    if (object.process == process) entry.asks_minter = false;
    if (record.kind() == proto::DRIVER_GONE && (object.process == process || entry.holders.contains(process)))
      entry.job_over = true;
    if (is_home(object) && object.process == process && !entry.known) {
      fail(object, entry,
           base::cat("object ", object.hex(), " is lost: the process that would have made it ended first"), &record);
    }
    drop(process, object);
  }
}

void Directory::hold(ProcessKey process, const ObjectId& object) {
  Entry& e = entry(object);
  spoken_of(process, object, e);
  bool first = e.holders.empty();
  e.holders.insert(process);
  if (first && !is_home(object)) act({.kind = Action::Kind::kTellHome, .object = object, .held = true});
  touch(object, e);
}

void Directory::drop(ProcessKey process, const ObjectId& object) {
  auto found = entries_.find(object);
  if (found == entries_.end()) return;
  Entry& e = found->second;
  spoken_of(process, object, e);
  bool held = e.holders.erase(process) > 0;
  if (held && e.holders.empty() && !is_home(object))
    act({.kind = Action::Kind::kTellHome, .object = object, .held = false});
  touch(object, e);
}

void Directory::publish(ProcessKey process, const ObjectId& object, std::optional<Known> known, bool tell_unheld) {
  Entry& e = entry(object);
  spoken_of(process, object, e);
  e.tell_unheld |= tell_unheld;
  e.promised |= object.process == process;
  if (is_home(object) && object.process == process) e.holders.insert(process);
  if (known) learn(object, e, std::move(*known));
  touch(object, e);
}

void Directory::result_sealed(ProcessKey process, const ObjectId& object, NodeKey node, int64_t size_bytes,
                              const proto::DeathRecord* death) {
  if (!is_home(object) || object.process != process) return;
  if (node != self_ && !death) return node_has_copy(node, object, size_bytes);
  Entry& e = entry(object);
  if (e.known || e.extent) return;
  // Sealed there, or here and freed before its caller had heard of it.
  const char* why = death ? kOnlyHolderDied : "nobody held it when its call was answered";
  fail(object, e, base::cat("object ", object.hex(), " is lost: ", why), death);
}

void Directory::disowned(ProcessKey process, const ObjectId& object) {
  auto found = entries_.find(object);
  if (found == entries_.end() || object.process != process) return;
  Known lost = failure(
      proto::OBJECT_LOST,
      base::cat("object ", object.hex(), " is lost: every reference to it had been dropped when it was asked for"),
      nullptr);
  spoken_of(process, object, found->second);
  lost.failure.set_next_step("keep a reference to it until whoever needs its value has one");
  learn(object, found->second, std::move(lost));
  touch(object, found->second);
}

std::optional<int64_t> Directory::create(ProcessKey writer, const ObjectId& object, int64_t size_bytes) {
  Entry& e = entry(object);
  if (e.extent) return e.writer == writer && !e.is_sealed ? std::optional(e.extent->offset) : std::nullopt;
  auto offset = allocate(size_bytes);
  if (!offset) {
    touch(object, e);
    return std::nullopt;
  }
  e.extent = Extent{*offset, size_bytes};
  e.writer = writer;
  touch(object, e);
  return offset;
}

void Directory::seal(ProcessKey writer, const ObjectId& object) {
  auto found = entries_.find(object);
  if (found == entries_.end() || !found->second.extent || found->second.writer != writer) return;
  Entry& e = found->second;
  if (e.is_sealed) return;
  e.is_sealed = true;
  if (is_home(object)) {
    spoken_of(writer, object, e);
    if (object.process == writer) e.holders.insert(writer);
  } else {
    act({.kind = Action::Kind::kTellHome,
         .object = object,
         .known = in_arena(e.extent->size_bytes, self_),
         .held = true,
         .copy = true});
  }
  learn(object, e, in_arena(e.extent->size_bytes, self_));
  touch(object, e);
}

void Directory::abort(ProcessKey writer, const ObjectId& object) {
  auto found = entries_.find(object);
  if (found == entries_.end()) return;
  Entry& e = found->second;
  if (!e.extent || e.is_sealed || e.writer != writer) return;
  release(e);
  touch(object, e);
}

void Directory::resolve(Ticket ticket, const ObjectId& object, bool fetch, ProcessKey process) {
  await(object, {ticket, fetch, process, {}});
}

void Directory::await(const ObjectId& object, Waiter waiter) {
  Entry& e = entry(object);
  e.waiters.push_back(std::move(waiter));
  if (!e.known) {
    if (!is_home(object)) {
      ask_home(object, e);
    } else if (!processes_.contains(object.process)) {
      fail(object, e, base::cat("object ", object.hex(), " is lost: the process that minted it is gone"), nullptr);
    } else if (!e.promised) {
      unheard_.try_emplace(object, clock_.now());  // perhaps its word is on its way
    }
  }
  answer_waiters(object, e);
  touch(object, e);
}

void Directory::cancel(Ticket ticket, const ObjectId& object) {
  auto found = entries_.find(object);
  if (found == entries_.end()) return;
  std::erase_if(found->second.waiters, [&](const Waiter& waiter) { return waiter.ticket == ticket; });
  touch(object, found->second);
}

void Directory::pin(ProcessKey process, const ObjectId& object) {
  auto found = entries_.find(object);
  if (found == entries_.end()) return;
  ++found->second.pins[process];
  touch(object, found->second);
}

void Directory::unpin(ProcessKey process, const ObjectId& object) {
  auto found = entries_.find(object);
  if (found == entries_.end()) return;
  auto pin = found->second.pins.find(process);
  if (pin == found->second.pins.end()) return;
  if (--pin->second == 0) found->second.pins.erase(pin);
  touch(object, found->second);
}

// ---- other nodes ----

void Directory::node_hold(NodeKey node, const ObjectId& object) {
  Entry& e = entry(object);
  e.node_holders.insert(node);
  touch(object, e);
}

void Directory::node_drop(NodeKey node, const ObjectId& object) {
  auto found = entries_.find(object);
  if (found == entries_.end()) return;
  found->second.node_holders.erase(node);
  touch(object, found->second);
}

void Directory::node_has_copy(NodeKey node, const ObjectId& object, int64_t size_bytes) {
  Entry& e = entry(object);
  e.copies.insert(node);
  learn(object, e, in_arena(size_bytes, node));
  touch(object, e);
}

void Directory::node_lost_copy(NodeKey node, const ObjectId& object) {
  auto found = entries_.find(object);
  if (found == entries_.end()) return;
  proto::DeathRecord none;
  lose_copies(object, found->second, node, none);
  touch(object, found->second);
}

void Directory::asked(Ticket ticket, const ObjectId& object, std::vector<NodeKey> avoid) {
  await(object, {ticket, false, 0, std::move(avoid)});
}

void Directory::copy_dropped(const ObjectId& object) {
  auto found = entries_.find(object);
  if (found == entries_.end()) return;
  found->second.writer = 0;
  if (in_use(object, found->second)) return;
  erase(found);  // its home has waited already
}

void Directory::node_died(NodeKey node, const proto::DeathRecord& record) {
  std::vector<ObjectId> all;
  for (const auto& [object, entry] : entries_) all.push_back(object);
  for (const ObjectId& object : all) {
    Entry& e = entries_.find(object)->second;
    e.node_holders.erase(node);
    lose_copies(object, e, node, record);
    if (object.home == node) {
      e.writer = 0;  // nobody is left to say when it may go
      if (!e.known)
        fail(object, e, base::cat("object ", object.hex(), " is lost: the node where it was minted died"), &record);
    }
    touch(object, e);
  }
}

void Directory::lose_copies(const ObjectId& object, Entry& e, NodeKey node, const proto::DeathRecord& record) {
  e.copies.erase(node);
  if (!e.known || e.known->kind != Known::Kind::kArena || e.known->holder != node) return;
  if (e.is_sealed) {
    e.known->holder = self_;
    return;
  }
  if (!e.copies.empty()) {
    e.known->holder = *e.copies.begin();
    return;
  }
  // The pull that may be under way ends by itself and finds the failure here.
  const std::string lost = base::cat("object ", object.hex(), " is lost: ", kOnlyHolderDied);
  if (is_home(object)) return fail(object, e, lost, &record);
  e.failed.insert(node);
  e.why_failed = failure(proto::OBJECT_LOST, lost, &record).failure;
  if (!e.pulling) look_elsewhere(object, e);
}

void Directory::ask_home(const ObjectId& object, Entry& e) {
  if (std::exchange(e.asked_home, true)) return;
  act({.kind = Action::Kind::kAskHome, .object = object, .avoid = {e.failed.begin(), e.failed.end()}});
}

// It could not be had from where it was known to be.
void Directory::look_elsewhere(const ObjectId& object, Entry& e) {
  if (e.waiters.empty()) e.failed.clear();
  if (e.known && e.known->kind == Known::Kind::kArena) {
    if (is_home(object)) {
      e.known->holder = holder_for(e, {e.failed.begin(), e.failed.end()});
      if (e.failed.contains(e.known->holder)) return give_up(object, e, e.why_failed);
    } else {
      e.known.reset();
    }
  }
  if (!e.known && !e.waiters.empty()) ask_home(object, e);
  answer_waiters(object, e);
}

void Directory::give_up(const ObjectId& object, Entry& e, const proto::Failure& why) {
  Known known;
  known.kind = Known::Kind::kFailure;
  known.failure = why;
  e.failed.clear();
  for (const Waiter& waiter : std::exchange(e.waiters, {}))
    act({.kind = Action::Kind::kAnswer, .ticket = waiter.ticket, .object = object, .known = known});
}

// A node that has it; where it can be, one from which it can be had.
NodeKey Directory::holder_for(const Entry& e, const std::vector<NodeKey>& avoid) const {
  auto good = [&](NodeKey node) { return std::ranges::find(avoid, node) == avoid.end(); };
  const NodeKey known = e.is_sealed && e.extent ? self_ : e.known->holder;
  if (good(known)) return known;
  auto other = std::ranges::find_if(e.copies, good);
  return other == e.copies.end() ? known : *other;
}

void Directory::home_answered(const ObjectId& object, const Known& known) {
  auto found = entries_.find(object);
  if (found == entries_.end()) return;
  Entry& e = found->second;
  e.asked_home = false;
  if (known.kind == Known::Kind::kArena && e.failed.contains(known.holder)) {
    if (!e.pulling) give_up(object, e, e.why_failed);  // there is no other
  } else {
    learn(object, e, known);
  }
  touch(object, e);
}

void Directory::home_failed(const ObjectId& object, const proto::Failure& why) {
  auto found = entries_.find(object);
  if (found == entries_.end()) return;
  found->second.asked_home = false;
  if (!found->second.known) give_up(object, found->second, why);
  touch(object, found->second);
}

void Directory::pulled(const ObjectId& object, const std::optional<proto::Failure>& failed) {
  auto found = entries_.find(object);
  if (found == entries_.end() || !found->second.pulling) return;
  Entry& e = found->second;
  e.pulling = false;
  if (failed) {
    release(e);
    if (e.failed.insert(e.source).second) e.why_failed = *failed;  // its death says more
    if (!e.known || e.known->kind == Known::Kind::kFailure || e.known->holder == e.source)
      look_elsewhere(object, e);
    else
      answer_waiters(object, e);
  } else {
    e.is_sealed = true;
    e.failed.clear();
    e.known = in_arena(e.extent->size_bytes, self_);
    if (!is_home(object))
      act({.kind = Action::Kind::kTellHome, .object = object, .known = *e.known, .held = true, .copy = true});
    answer_waiters(object, e);
  }
  touch(object, e);
}

// ---- the shell ----

std::optional<Directory::Extent> Directory::sealed(const ObjectId& object) const {
  auto found = entries_.find(object);
  if (found == entries_.end() || !found->second.is_sealed) return std::nullopt;
  return found->second.extent;
}

std::vector<Directory::Listed> Directory::list() const {
  std::vector<Listed> out;
  out.reserve(entries_.size());
  for (const auto& [object, entry] : entries_) {
    Listed& one = out.emplace_back();
    one.object = object;
    one.here = entry.extent && entry.is_sealed;
    one.holders = entry.holders.size();
    one.pins = entry.pins.size();
    if (entry.extent) one.size_bytes = entry.extent->size_bytes;
    if (!entry.known) continue;
    one.kind = entry.known->kind;
    one.failure = entry.known->failure.text();
    if (*one.kind != Known::Kind::kFailure)
      one.size_bytes = std::max(entry.known->size_bytes, static_cast<int64_t>(entry.known->value.size()));
  }
  return out;
}

void Directory::ask_minters() {
  for (auto at = unheard_.begin(); at != unheard_.end();) {
    const auto& [object, since] = *at;
    auto found = entries_.find(object);
    const bool waited_for =
        found != entries_.end() && !found->second.known && !found->second.promised && !found->second.waiters.empty();
    if (waited_for && clock_.now() - since < kLastLinger) {
      ++at;
      continue;
    }
    if (waited_for) act({.kind = Action::Kind::kAskMinter, .object = object});
    at = unheard_.erase(at);
  }
}

void Directory::sweep() {
  ask_minters();
  std::vector<ObjectId> idle(idle_.begin(), idle_.end());
  for (const ObjectId& object : idle) {
    auto found = entries_.find(object);
    if (found == entries_.end()) {
      idle_.erase(object);
    } else if (clock_.now() - found->second.idle_since >= (found->second.job_over ? kLastLinger : kLinger) &&
               !asks_first(object, found->second)) {
      erase(found);
    }
  }
}

void Directory::spoken_of(ProcessKey process, const ObjectId& object, Entry& e) {
  if (object.process != process) return;
  e.minter_knows = true;
  e.asks_minter = false;
}

// Its caller may stand still, in a debugger or with its machine, and hear of the result only when it goes on.
bool Directory::asks_first(const ObjectId& object, Entry& e) {
  const bool result = is_home(object) && e.known && e.known->kind == Known::Kind::kArena;
  if (!result || e.minter_knows || e.job_over || !processes_.contains(object.process)) return false;
  e.asks_minter = true;
  touch(object, e);
  act({.kind = Action::Kind::kAskMinter, .object = object});
  return true;
}

std::vector<Action> Directory::take_actions() { return std::exchange(actions_, {}); }

Directory::Entry& Directory::entry(const ObjectId& object) { return entries_[object]; }

std::optional<int64_t> Directory::allocate(int64_t size_bytes) {
  auto offset = extents_.allocate(size_bytes);
  if (offset) warm_.taken(*offset, Extents::rounded(size_bytes));
  return offset;
}

void Directory::release(Entry& e) {
  extents_.release(e.extent->offset);
  warm_.freed(e.extent->offset, Extents::rounded(e.extent->size_bytes), clock_.now());
  e.extent.reset();
}

bool Directory::in_use(const ObjectId& object, const Entry& e) const {
  bool only_copy = e.is_sealed && e.writer != 0 && !is_home(object);
  return only_copy || e.asks_minter || !e.holders.empty() || !e.pins.empty() || !e.node_holders.empty() ||
         !e.waiters.empty() || e.pulling || (e.extent && !e.is_sealed);
}

void Directory::touch(const ObjectId& object, Entry& e) {
  if (in_use(object, e)) {
    idle_.erase(object);
  } else if (idle_.insert(object).second) {
    e.idle_since = clock_.now();
  }
}

void Directory::learn(const ObjectId& object, Entry& e, Known known) {
  if (known.kind == Known::Kind::kArena && known.size_bytes < 0) {
    known = failure(
        proto::OBJECT_LOST,
        base::cat("object ", object.hex(), " is lost: a size of ", known.size_bytes, " bytes was told of it"), nullptr);
  }
  // The first word stands, but a failure never hides a value that exists.
  if (!e.known || (e.known->kind == Known::Kind::kFailure && known.kind != Known::Kind::kFailure))
    e.known = std::move(known);
  answer_waiters(object, e);
}

void Directory::fail(const ObjectId& object, Entry& e, const std::string& text, const proto::DeathRecord* record) {
  e.known = failure(proto::OBJECT_LOST, text, record);
  answer_waiters(object, e);
}

void Directory::answer_waiters(const ObjectId& object, Entry& e) {
  if (!e.known) return;
  std::vector<Waiter> still;
  for (const Waiter& waiter : std::exchange(e.waiters, {})) {
    bool here = e.is_sealed && e.extent;
    if (e.known->kind == Known::Kind::kArena && waiter.fetch && !here) {
      still.push_back(waiter);
      continue;
    }
    Action answer{.kind = Action::Kind::kAnswer, .ticket = waiter.ticket, .object = object, .known = *e.known};
    if (e.known->kind == Known::Kind::kArena) answer.known.holder = holder_for(e, waiter.avoid);
    if (e.known->kind == Known::Kind::kArena && waiter.fetch) {
      answer.offset = e.extent->offset;
      ++e.pins[waiter.process];
    }
    act(std::move(answer));
  }
  e.waiters = std::move(still);
  if (!e.waiters.empty()) start_pull(object, e);
}

void Directory::start_pull(const ObjectId& object, Entry& e) {
  if (e.pulling || e.extent) return;
  auto offset = allocate(e.known->size_bytes);
  if (!offset) {
    Known full = failure(proto::OUT_OF_MEMORY_ERROR,
                         base::cat("object ", object.hex(), " of ", e.known->size_bytes,
                                   " bytes does not fit the arena: ", extents_.used_bytes(), " of ",
                                   extents_.capacity_bytes(), " bytes are used"),
                         nullptr);
    full.failure.set_next_step(
        "drop refs that are no longer needed, or start the node with a larger --object-store-memory");
    return give_up(object, e, full.failure);
  }
  e.extent = Extent{*offset, e.known->size_bytes};
  e.pulling = true;
  e.source = e.known->holder;
  act({.kind = Action::Kind::kPull, .object = object, .known = *e.known, .offset = offset, .node = e.known->holder});
}

void Directory::erase(std::unordered_map<ObjectId, Entry>::iterator found) {
  Entry& e = found->second;
  if (e.extent) release(e);
  if (e.is_sealed && !is_home(found->first))
    act({.kind = Action::Kind::kTellHome, .object = found->first, .held = false, .copy = true});
  if (e.tell_unheld) act({.kind = Action::Kind::kUnheld, .object = found->first});
  for (NodeKey node : e.copies) act({.kind = Action::Kind::kDropCopy, .object = found->first, .node = node});
  idle_.erase(found->first);
  entries_.erase(found);
}

}  // namespace rayo::object_store
