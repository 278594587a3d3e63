// Finds calls that wait for themselves: A waits for B, whose running call waits for A again. While the main thread
// waits inside a call, it now and then asks along the chain: the probe goes to whoever owes the awaited reply, which
// passes it on where it waits itself, and a probe that comes back names the cycle. Nothing is asked in the first
// kFirstProbe, so short waits cost nothing.
//
// Of a cycle one member fails: the one with the largest process id ends its wait with Deadlock. Others see that error
// come back as the result of their call. Under the baton.
#pragma once

#include <functional>
#include <string>

#include "runtime/worker/call_host.h"
#include "runtime/worker/call_wire.h"
#include "runtime/worker/object_table.h"

namespace rayo::worker {

inline constexpr base::Duration kFirstProbe = std::chrono::milliseconds(20);

class WaitChain {
 public:
  WaitChain(uint64_t process, CallHost& host, ObjectTable& table, CallWire& wire)
      : process_(process), host_(host), table_(table), wire_(wire) {}

  // The main thread, inside a call, waits for that object from now until end().
  void begin(ObjectSlot& slot) { waiting_ = &slot; }
  void end() { waiting_ = nullptr; }
  // Asks once along the chain.
  void probe();
  void on_probe(PeerId peer, uint64_t call_id, ByteView body);

 private:
  void pass_on(proto::CallChain chain);
  void found(const proto::CallChain& chain);
  std::string me() const;

  const uint64_t process_;
  CallHost& host_;
  ObjectTable& table_;
  CallWire& wire_;
  ObjectSlot* waiting_ = nullptr;
};

}  // namespace rayo::worker
