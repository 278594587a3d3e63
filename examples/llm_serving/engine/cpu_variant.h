// ggml's CPU backend is in the program three times, built for x86-64-v2, v3 (AVX2) and v4 (AVX-512 with VNNI and
// BF16). What the processor says of itself is not enough (machines advertise instructions that fault): each variant
// multiplies small matrices of every common quantised type in a child process first, and one that dies or computes
// something wrong is not used.
#pragma once

#include <string>
#include <vector>

struct ggml_backend_reg;

namespace serving {

struct CpuVariant {
  std::string name;  // x86-64-v4
  ggml_backend_reg* (*backend)();
};

// Best first.
const std::vector<CpuVariant>& cpu_variants();

// Why a variant cannot be used here; empty: it can. Forks a child, which ends within 10 s; any thread.
std::string try_cpu_variant(const CpuVariant& variant);

struct CpuChoice {
  ggml_backend_reg* backend = nullptr;
  std::string name;
  std::string reason;  // "x86-64-v4 died of signal 4" for each better one; empty: it is the best one
};

// Tries the variants and registers the first that works, once per process; all callers get the same.
const CpuChoice& choose_cpu_variant();

}  // namespace serving
