// The parts of one raylet as references, for the two places where messages fan out to them: frames of
// processes (frame_dispatch.h) and the head's messages (head_dispatch.h). Assembled in raylet_main.cc;
// nothing else takes all of them.
#pragma once

#include "runtime/base/loop/event.h"

namespace rayo::raylet {

class ActorHost;
class CallLists;
class HeadLink;
class HeadRequests;
class Jobs;
class LeaseService;
class LogFiles;
class Nodes;
class ObjectService;
class Output;
class PackageStore;
class PeerLinks;
class Processes;
class WorkerStarter;
class Workers;
struct OwnNode;

struct Parts {
  base::Loop& loop;
  OwnNode& own;
  Processes& processes;
  Jobs& jobs;
  PackageStore& packages;
  WorkerStarter& starter;
  Workers& workers;
  LeaseService& leases;
  ActorHost& actors;
  PeerLinks& links;
  ObjectService& objects;
  Nodes& nodes;
  HeadLink& head;
  HeadRequests& requests;
  Output& output;
  LogFiles& logs;
  CallLists& calls;
  base::TaskGroup& tasks;  // for fibers that outlive a message
};

}  // namespace rayo::raylet
