// A Python process's part in a cluster: a driver's init, and the life of a worker or zygote.
#pragma once

#include <pybind11/pybind11.h>
#include <string>
#include <vector>

namespace rayo::python {

namespace py = pybind11;

// rayo.init: joins the cluster; workers are started with `arguments` (their argv). Raises what init throws.
// `main_thread`: this is Python's, whose waits signals end.
void start(const std::vector<std::string>& arguments, const py::dict& options, bool main_thread);

// In a process that a raylet started: never returns. A zygote forks here, with the interpreter told before and after.
[[noreturn]] void serve(const std::vector<std::string>& arguments);

// Memory inside a value that `owner` (a Ref) keeps; read-only.
class Block {
 public:
  Block(py::object owner, uintptr_t begin, size_t size)
      : owner_(std::move(owner)), begin_(reinterpret_cast<const char*>(begin)), size_(size) {}
  const char* begin() const { return begin_; }
  size_t size() const { return size_; }

 private:
  py::object owner_;
  const char* begin_;
  size_t size_;
};

}  // namespace rayo::python
