// If this finds something, a value from another process crashes the program that reads it, or is read as
// something that it is not.
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <variant>

#include <rayo/codec.h>
#include <rayo/error.h>
#include <rayo/internal/backend.h>

#include "runtime/api/current.h"
#include "tests/fuzz/seeds.h"

namespace {

struct Leaf {
  std::string name;
  std::vector<double> prices;
  std::optional<int64_t> count;
};
struct Tree {
  Leaf leaf;
  std::map<std::string, std::vector<Leaf>> groups;
  std::variant<bool, std::string, std::tuple<int8_t, uint64_t>> choice;
  std::array<float, 3> place;
  std::set<int32_t> marks;
  std::unique_ptr<Leaf> next;
};

template <class T>
std::string bytes_of(const T& value) {
  rayo::Encoder out;
  rayo::encode(out, value);
  return {reinterpret_cast<const char*>(out.view().data()), out.view().size()};
}

// What is taken is a value: written again and read again, it is the same bytes.
template <class T>
void read(std::span<const std::byte> bytes) {
  std::string first;
  try {
    rayo::Decoder in(bytes);
    T value = rayo::decode<T>(in);
    in.finish();
    first = bytes_of(value);
  } catch (const rayo::TypeMismatch&) {
    return;
  }
  rayo::Decoder again(std::as_bytes(std::span(first)));
  rayo::fuzz::expect(bytes_of(rayo::decode<T>(again)) == first);
}

}  // namespace

// None of the types here holds refs: no session is asked for.
rayo::internal::Backend& rayo::internal::backend() { std::abort(); }
rayo::internal::Backend* rayo::api::current_backend() { return nullptr; }

std::vector<std::string> rayo::fuzz::seeds() {
  Tree tree{{"a", {1, 2.5}, 7}, {{"g", {{"b", {}, {}}}}}, std::string("x"), {1, 2, 3}, {4, 5}, nullptr};
  tree.next = std::make_unique<Leaf>();
  std::vector<std::string> made = {bytes_of(tree), bytes_of(tree.leaf), bytes_of(tree.groups),
                                   bytes_of(uint64_t{1} << 40), bytes_of(std::vector<std::string>{"a", "b"})};
  for (std::string& seed : made) seed.insert(0, 1, static_cast<char>(&seed - made.data()));
  return made;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 5) {
    case 0:
      read<Tree>(bytes);
      break;
    case 1:
      read<Leaf>(bytes);
      break;
    case 2:
      read<std::map<std::string, std::vector<Leaf>>>(bytes);
      break;
    case 3:
      read<uint64_t>(bytes);
      break;
    default:
      read<std::vector<std::string>>(bytes);
      break;
  }
  return 0;
}
