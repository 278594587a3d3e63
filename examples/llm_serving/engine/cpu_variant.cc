#include "examples/llm_serving/engine/cpu_variant.h"

#include <array>
#include <cmath>
#include <cstring>
#include <ggml-alloc.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <memory>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/llm_serving/engine/llama_log.h"

extern "C" {
ggml_backend_reg_t ggml_backend_cpu_v2_reg(void);
ggml_backend_reg_t ggml_backend_cpu_v3_reg(void);
ggml_backend_reg_t ggml_backend_cpu_v4_reg(void);
// ggml's own, not in its installed headers.
void ggml_backend_register(ggml_backend_reg_t reg);
}

namespace serving {
namespace {

constexpr int kWrong = 3;        // the child's exit code: the sum is wrong
constexpr int kUnavailable = 4;  // the backend cannot be made
constexpr int kColumns = 512;    // a multiple of every block size
constexpr int kRows = 16;
constexpr int kTrialMs = 10'000;

using Backend = std::unique_ptr<ggml_backend, decltype(&ggml_backend_free)>;
using Context = std::unique_ptr<ggml_context, decltype(&ggml_free)>;
using Buffer = std::unique_ptr<ggml_backend_buffer, decltype(&ggml_backend_buffer_free)>;

std::vector<float> some_values(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / (1u << 23) - 1.0f;
  }
  return values;
}

// weights x input on the backend against the same product of the dequantised weights in plain C++.
bool multiplies(ggml_backend_t backend, ggml_type type) {
  const ggml_init_params params{16 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true};
  const Context context(ggml_init(params), ggml_free);
  ggml_tensor* weights = ggml_new_tensor_2d(context.get(), type, kColumns, kRows);
  ggml_tensor* input = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kColumns, 2);
  ggml_tensor* product = ggml_mul_mat(context.get(), weights, input);
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, product);
  const Buffer buffer(ggml_backend_alloc_ctx_tensors(context.get(), backend), ggml_backend_buffer_free);
  if (!buffer) return false;

  const std::vector<float> plain = some_values(kColumns * kRows, 1);
  const std::vector<float> vector = some_values(kColumns * 2, 2);
  std::vector<uint8_t> packed(ggml_nbytes(weights));
  ggml_quantize_chunk(type, plain.data(), packed.data(), 0, kRows, kColumns, nullptr);
  ggml_backend_tensor_set(weights, packed.data(), 0, packed.size());
  ggml_backend_tensor_set(input, vector.data(), 0, vector.size() * sizeof(float));
  if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) return false;

  std::vector<float> got(kRows * 2);
  ggml_backend_tensor_get(product, got.data(), 0, got.size() * sizeof(float));
  std::vector<float> unpacked(kColumns * kRows);
  ggml_get_type_traits(type)->to_float(packed.data(), unpacked.data(), kColumns * kRows);
  for (int column = 0; column < 2; ++column) {
    for (int row = 0; row < kRows; ++row) {
      double sum = 0, size = 0;
      for (int i = 0; i < kColumns; ++i) {
        const double term = double{unpacked[row * kColumns + i]} * vector[column * kColumns + i];
        sum += term;
        size += term * term;
      }
      // The input is quantised to 8 bits on the way: an error of a few percent of the product's spread.
      if (!(std::abs(got[column * kRows + row] - sum) <= 0.1 * std::sqrt(size) + 1e-3)) return false;
    }
  }
  return true;
}

int trial(const CpuVariant& variant) {
  ggml_backend_reg_t reg = variant.backend();
  if (reg == nullptr || ggml_backend_reg_dev_count(reg) == 0) return kUnavailable;
  const Backend backend(ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 0), nullptr), ggml_backend_free);
  if (!backend) return kUnavailable;
  // One thread: a child of a process with threads starts none.
  auto set_threads = reinterpret_cast<void (*)(ggml_backend_t, int)>(
      ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads"));
  if (set_threads == nullptr) return kUnavailable;
  set_threads(backend.get(), 1);
  for (ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q8_0,
                         GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K}) {
    if (!multiplies(backend.get(), type)) return kWrong;
  }
  return 0;
}

std::string verdict(int status) {
  if (WIFSIGNALED(status)) return std::string("died of ") + strsignal(WTERMSIG(status));
  if (WEXITSTATUS(status) == 0) return "";
  return WEXITSTATUS(status) == kWrong ? "computes wrong products" : "cannot be started";
}

}  // namespace

const std::vector<CpuVariant>& cpu_variants() {
  static const std::vector<CpuVariant> variants = {{"x86-64-v4", ggml_backend_cpu_v4_reg},
                                                   {"x86-64-v3", ggml_backend_cpu_v3_reg},
                                                   {"x86-64-v2", ggml_backend_cpu_v2_reg}};
  return variants;
}

std::string try_cpu_variant(const CpuVariant& variant) {
  capture_llama_log();
  const pid_t child = fork();
  if (child < 0) return std::string("cannot be tried: ") + strerror(errno);
  if (child == 0) {
    for (int number : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
      signal(number, SIG_DFL);  // no crash report of the parent's
    _exit(trial(variant));
  }
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd end{handle, POLLIN, 0};
  if (handle >= 0 && poll(&end, 1, kTrialMs) == 0) kill(child, SIGKILL);
  if (handle >= 0) close(handle);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return std::string("cannot be tried: ") + strerror(errno);
  }
  return verdict(status);
}

const CpuChoice& choose_cpu_variant() {
  static const CpuChoice choice = [] {
    CpuChoice made;
    for (const CpuVariant& variant : cpu_variants()) {
      const std::string problem = try_cpu_variant(variant);
      if (problem.empty()) {
        made.backend = variant.backend();
        made.name = variant.name;
        ggml_backend_register(made.backend);
        break;
      }
      made.reason += (made.reason.empty() ? "" : ", ") + variant.name + " " + problem;
    }
    return made;
  }();
  return choice;
}

}  // namespace serving
