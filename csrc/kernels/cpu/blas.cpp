#include "kernels/cpu/blas.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace rl::cpu {
namespace {

std::mutex mutex;
std::string library_path;
void* library = nullptr;
Blas table;
std::atomic<const Blas*> ready{nullptr};

void* find(const char* name) {
  std::string full = std::string("scipy_") + name;
  void* symbol = dlsym(library, full.c_str());
  if (!symbol) throw std::runtime_error("blas: " + library_path + " has no function " + full);
  return symbol;
}

template <class F>
void bind(F& slot, const char* name) {
  slot = reinterpret_cast<F>(find(name));
}

void open_library() {
  if (library_path.empty()) {
    throw std::runtime_error(
        "blas: no path to libscipy_openblas.so is set; is the package "
        "scipy-openblas32 installed?");
  }
  // OpenBLAS starts its threads while it is loaded: tell it not to, and leave no trace.
  const char* variable = "OPENBLAS_NUM_THREADS";
  bool preset = getenv(variable) != nullptr;
  if (!preset) setenv(variable, "1", 1);
  library = dlopen(library_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!preset) unsetenv(variable);
  if (!library) {
    const char* reason = dlerror();
    throw std::runtime_error("blas: cannot open " + library_path + ": " + (reason ? reason : "?"));
  }
}

void load() {
  std::lock_guard lock(mutex);
  if (ready.load()) return;
  if (!library) open_library();
  reinterpret_cast<void (*)(int)>(find("openblas_set_num_threads"))(1);
  bind(table.sgemm, "cblas_sgemm");
  bind(table.dgemm, "cblas_dgemm");
  bind(table.cgemm, "cblas_cgemm");
  bind(table.zgemm, "cblas_zgemm");
  bind(table.sgemv, "cblas_sgemv");
  bind(table.dgemv, "cblas_dgemv");
  bind(table.cgemv, "cblas_cgemv");
  bind(table.zgemv, "cblas_zgemv");
  bind(table.sdot, "cblas_sdot");
  bind(table.ddot, "cblas_ddot");
  bind(table.cdotu, "cblas_cdotu_sub");
  bind(table.zdotu, "cblas_zdotu_sub");
  ready.store(&table, std::memory_order_release);
}

}  // namespace

void set_blas_path(const char* path) {
  {
    std::lock_guard lock(mutex);
    library_path = path;
  }
  // Opened now, with the memory that a product works in, so that products need none when the
  // machine's has run out (OpenBLAS ends the process then). Where it can't be, the first product
  // says so.
  try {
    constexpr int n = 128;
    std::vector<double> zeros(n * n);
    double* x = zeros.data();
    blas().dgemm(101, 111, 111, n, n, n, 0, x, n, x, n, 1, x, n);
  } catch (const std::exception&) {}
}

const Blas& blas() {
  const Blas* found = ready.load(std::memory_order_acquire);
  if (!found) [[unlikely]] {
    load();
    found = ready.load();
  }
  return *found;
}

void* blas_symbol(const char* name) {
  blas();
  return find(name);
}

}  // namespace rl::cpu
