// Rayo: tasks, actors and shared objects across machines, in C++.
//
//   #include <rayo/rayo.h>
//
//   struct Counter {                       // a plain struct: no base class, no macro, testable without a cluster
//     int64_t value = 0;
//     int64_t add(int64_t n) { return value += n; }
//   };
//   double half(double x) { return x / 2; }
//
//   int main(int argc, char** argv) {
//     rayo::init(argc, argv);              // in a worker, never returns
//     auto counter = rayo::spawn<Counter>({.name = "hits"});
//     rayo::ObjectRef<int64_t> hits = counter.call<&Counter::add>(3);
//     rayo::ObjectRef<double> h = rayo::remote<half>(hits);
//     std::printf("%f\n", h.get());
//   }
//
// The parts, each a page of its own: runtime.h (init), actor.h, task.h, object.h, stream.h, result.h, error.h,
// options.h, codec.h (what can travel), id.h. They include nothing but the standard library and Boost.PFR,
// and define no macro.
#pragma once

#include <rayo/actor.h>
#include <rayo/codec.h>
#include <rayo/error.h>
#include <rayo/id.h>
#include <rayo/object.h>
#include <rayo/options.h>
#include <rayo/result.h>
#include <rayo/runtime.h>
#include <rayo/stream.h>
#include <rayo/task.h>
