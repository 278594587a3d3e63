// The head's own spans and bounds, each with its unit and its reason. What a user may set is in base::Config instead.
#pragma once

#include <chrono>
#include <cstddef>

#include "runtime/base/clock.h"

namespace rayo::head {

using namespace std::chrono_literals;

// The head looks at waits and at refusals this often: a fifth of the shortest span that it judges.
constexpr base::Duration kTick = 100ms;
// Where nothing waits: half of kOwnStall. A node's silence is looked at when it is long enough to be told.
constexpr base::Duration kIdleTick = 250ms;
// A turn that comes later than this was our own stall (a stopped process, a full disk): nobody is blamed for beats not
// read.
constexpr base::Duration kOwnStall = 500ms;
// A suspect node's port is tried this often, to tell a raylet that is gone (refused) from a machine that is silent.
constexpr base::Duration kProbeEvery = 500ms;
constexpr base::Duration kProbeLimit = 400ms;
// What no living node could ever hold is told to its driver after this: long enough for a node that is just joining.
constexpr base::Duration kNoticeAfter = 1s;
// A node that refused something is left out for this: its next report comes sooner, a worker's start takes longer.
constexpr base::Duration kRefusalHolds = 500ms;
constexpr base::Duration kLongestRefusal = 30s;  // of a node that cannot start workers: twice as long each time
// Restarts back off: the first at once, the second after kRestartFirst, then doubling to the limit. After a life of
// kRestartForgiven it begins anew.
constexpr base::Duration kRestartFirst = 1s;
constexpr base::Duration kRestartMost = 30s;
constexpr base::Duration kRestartForgiven = 60s;
// Shapes that spread, whose last nodes are remembered.
constexpr size_t kSpreadShapes = 1'000;
// A request for leases that nobody asks again for is dropped after this.
constexpr base::Duration kLeaseAskHolds = 3s;
// One answer to PlaceLeases at the latest, even an empty one with reasons: the raylet asks again.
constexpr base::Duration kLeaseAnswerWithin = 5s;
// A node that died or left is shown this long (and at most kDeadNodes of them).
constexpr base::Duration kDeadNodeShown = 24h;
constexpr size_t kDeadNodes = 200;
// Without room on the disk the store is tried again this often.
constexpr base::Duration kStoreRetry = 1s;
// HTTP: a request's headers at most, and how long it may take; the handshake before it.
constexpr size_t kHttpHeaderBytes = 16 * 1024;
constexpr base::Duration kHttpRequestWithin = 10s;
constexpr base::Duration kHttpHandshakeWithin = 2s;
// HTTP: connections at a time from loopback, as many from elsewhere, and of one address there: nobody keeps others out.
constexpr int kHttpConnections = 64;
constexpr int kHttpPerAddress = 32;
// HTTP: what is still read behind an answer, so that the answer gets through, and for how long.
constexpr size_t kHttpScrapBytes = 256 * 1024;
constexpr base::Duration kHttpScrapWithin = 1s;
// Streams: what waits for a node that reads slowly, at most; then the stream is cut and the node registers again.
constexpr size_t kOutboxBytes = 64u << 20;
// Histories by number and bytes.
constexpr size_t kDeadActors = 10'000;
constexpr size_t kDeadActorBytes = 16u << 20;
constexpr size_t kEndedJobs = 1'000;
constexpr size_t kEvents = 1'000;
constexpr size_t kEventBytes = 256u << 10;
constexpr size_t kEventsInStatus = 20;
// How long a node that asks for a program waits for it to come from the driver's node: 100 MB over a slow link.
constexpr base::Duration kPackageAwaited = 20s;
// One value in the key-value table.
constexpr size_t kKeyValueBytes = 1u << 20;
// All of one namespace, and all: a program that writes without end takes the store from nobody else.
constexpr size_t kKeyValueSpaceBytes = 64u << 20;
constexpr size_t kKeyValueAllBytes = 1u << 30;

}  // namespace rayo::head
