// Making identifiers. The types themselves are public: <rayo/id.h>.
#pragma once

#include <cstdint>

#include <rayo/id.h>

namespace rayo::base {

// 64 bits from the kernel's random source.
uint64_t random_bits();

// A fresh id of the given type, never nil.
template <class IdType>
IdType random_id() {
  IdType id{random_bits(), random_bits()};
  if (!id) id.low = 1;
  return id;
}

// The 64 bits that stand for a node or a process inside other ids.
template <class IdType>
uint64_t short_id(const IdType& id) {
  return id.high;
}

}  // namespace rayo::base
