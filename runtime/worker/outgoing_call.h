// A call that cannot leave at once (it waits for its arguments, for its actor's address, or for room), or that may have to
// leave once more. It holds counted handles of every object that it names. Under the baton.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "runtime/worker/call_wire.h"
#include "runtime/worker/object_table.h"

namespace rayo::worker {

// Where a call's frame does not hold its arguments with the ids of all that they name.
std::optional<ErrorRecord> too_large(const internal::CallRequest& request);

struct OutgoingCall {
  // Copies the request; the handles are counted until the call is sent, then by its result's slot until the reply.
  OutgoingCall(ObjectTable& table, CallWire& wire, ObjectSlot& result, const internal::CallRequest& request);
  ~OutgoingCall();
  OutgoingCall(const OutgoingCall&) = delete;
  OutgoingCall& operator=(const OutgoingCall&) = delete;

  // Counts the argument refs that this process itself will know soon (results of its own calls) and asks to be told:
  // `changed` is called each time when none is left.
  void await_arguments(std::function<void()> changed);
  bool ready() const { return unready_ == 0; }
  // The first argument that is an error: the call fails with it and is never sent.
  const ErrorRecord* failed_argument() const;
  // Whoever receives it has all its arguments: none is fetched first.
  bool self_contained() const;

  // The code that it runs, whatever its language: what TaskPace keeps apart. Both numbers are hashes.
  uint64_t code() const { return function ^ which; }

  // Sends it: small ready arguments in the frame, others by their ids. `header` has target, incarnation and sequence.
  // False: the wire did not take it, nothing happened. `keep`: it may be sent again, after take_back().
  bool send(PeerId peer, rpc::FrameHeader header, bool keep = false);
  // Whoever it was sent to is gone.
  void take_back();

  ObjectTable& table;
  CallWire& wire;
  ObjectSlot& result;
  const uint64_t function;
  const uint64_t which;    // CallRequest::which
  const char* const name;  // CallRequest::name
  std::vector<std::byte> arguments;
  std::vector<internal::ObjectHandle> refs;  // argument_count arguments, then those inside values
  size_t argument_count = 0;
  std::vector<ActorId> actors;
  int times_sent = 0;
  int retries = 0;    // of a task: how often it may run again after a death; < 0: without end
  int runs_lost = 0;  // runs of it that ended in a death

 private:
  struct Hook : ReadyHook {
    OutgoingCall* call = nullptr;
    ObjectSlot* slot = nullptr;
  };
  static void on_ready(ReadyHook& hook);

  std::vector<internal::ObjectHandle> within_;  // kept and sent: refs inside the values in the frame
  std::vector<Hook> hooks_;
  size_t unready_ = 0;
  std::function<void()> changed_;
};

}  // namespace rayo::worker
