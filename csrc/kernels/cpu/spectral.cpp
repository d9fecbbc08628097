// Eigenvalues and singular values.
#include "kernels/cpu/lapack.h"
#include "kernels/cpu/linalg.h"

namespace rl::cpu {

using namespace lapack;

namespace {

double cube(int64_t n) { return double(n) * double(n) * double(n); }

// The eigenvectors of real matrices come in real and imaginary columns.
template <class T>
void unpack_vectors(int64_t n, const T* imaginary, const T* packed, std::complex<T>* v) {
  for (int64_t c = 0; c < n; c++) {
    const T *x = packed + c * n, *y = x + n;
    bool pair = imaginary[c] != 0 && c + 1 < n;
    for (int64_t r = 0; r < n; r++) {
      v[c * n + r] = {x[r], pair ? y[r] : T(0)};
      if (pair) v[(c + 1) * n + r] = {x[r], -y[r]};
    }
    c += pair;
  }
}

}  // namespace

void eigh(DType d, int64_t batch, int64_t n, void* a, void* w, bool vectors, bool upper,
          int32_t* info) {
  const char *job = vectors ? "V" : "N", *part = upper ? "U" : "L";
  with_type(d, [&](auto type) {
    using T = decltype(type);
    using R = Real<T>;
    int size = int(n), lead = std::max(1, size);
    auto run = [&](T* x, R* values, T* work, int room, R* reals, int real_room, int* whole,
                   int whole_room, int* failed) {
      if constexpr (is_complex_v<T>) {
        static auto* heevd =
            find<T, void(const char*, const char*, const int*, T*, const int*, R*, T*, const int*,
                         R*, const int*, int*, const int*, int*, size_t, size_t)>("heevd");
        heevd(job, part, &size, x, &lead, values, work, &room, reals, &real_room, whole,
              &whole_room, failed, 1, 1);
      } else {
        static auto* syevd =
            find<T, void(const char*, const char*, const int*, T*, const int*, R*, T*, const int*,
                         int*, const int*, int*, size_t, size_t)>("syevd");
        syevd(job, part, &size, x, &lead, values, work, &room, whole, &whole_room, failed, 1, 1);
      }
    };
    T room{};
    R real_room{};
    int whole_room = 0, failed = 0;
    run(nullptr, nullptr, &room, -1, &real_room, -1, &whole_room, -1, &failed);
    each_range(batch, 9 * cube(n), [&](int64_t begin, int64_t end) {
      std::vector<T> work(static_cast<size_t>(wanted(room)));
      std::vector<R> reals(static_cast<size_t>(wanted(real_room)));
      std::vector<int> whole(static_cast<size_t>(std::max(1, whole_room)));
      for (int64_t i = begin; i < end; i++)
        run(static_cast<T*>(a) + i * n * n, static_cast<R*>(w) + i * n, work.data(),
            int(work.size()), reals.data(), int(reals.size()), whole.data(), int(whole.size()),
            info + i);
    });
  });
}

void eig(DType d, int64_t batch, int64_t n, void* a, void* w, void* v, int32_t* info) {
  const char* job = v ? "V" : "N";
  with_type(d, [&](auto type) {
    using T = decltype(type);
    using R = Real<T>;
    using C = std::complex<R>;
    int size = int(n), lead = std::max(1, size), one = 1;
    C *values = static_cast<C*>(w), *vectors = static_cast<C*>(v);
    // `reals` has room for the parts of the values, or for the work of complex matrices.
    auto run = [&](T* x, C* value, C* vector, T* work, int room, R* reals, T* packed, int* failed) {
      if constexpr (is_complex_v<T>) {
        static auto* geev =
            find<T, void(const char*, const char*, const int*, T*, const int*, T*, T*, const int*,
                         T*, const int*, T*, const int*, R*, int*, size_t, size_t)>("geev");
        geev("N", job, &size, x, &lead, value, nullptr, &one, vector, &lead, work, &room, reals,
             failed, 1, 1);
      } else {
        static auto* geev =
            find<T, void(const char*, const char*, const int*, T*, const int*, T*, T*, T*,
                         const int*, T*, const int*, T*, const int*, int*, size_t, size_t)>("geev");
        geev("N", job, &size, x, &lead, reals, reals + n, nullptr, &one, packed, &lead, work, &room,
             failed, 1, 1);
        if (!value) return;
        for (int64_t k = 0; k < n; k++) value[k] = {reals[k], reals[n + k]};
        if (vector) unpack_vectors(n, reals + n, packed, vector);
      }
    };
    T room{};
    int failed = 0;
    std::vector<R> unused(static_cast<size_t>(2 * n + 1));
    run(nullptr, nullptr, nullptr, &room, -1, unused.data(), nullptr, &failed);
    each_range(batch, 25 * cube(n), [&](int64_t begin, int64_t end) {
      std::vector<T> work(static_cast<size_t>(wanted(room)));
      std::vector<T> packed(v && !is_complex_v<T> ? static_cast<size_t>(n * n) : 0);
      std::vector<R> reals(static_cast<size_t>(2 * n));
      for (int64_t i = begin; i < end; i++)
        run(static_cast<T*>(a) + i * n * n, values + i * n, v ? vectors + i * n * n : nullptr,
            work.data(), int(work.size()), reals.data(), packed.data(), info + i);
    });
  });
}

void singular(DType d, int64_t batch, int64_t m, int64_t n, void* a, void* u, void* s, void* vh,
              bool full, int32_t* info) {
  int64_t k = std::min(m, n), left = full ? m : k, right = full ? n : k;
  const char* job = !u ? "N" : full ? "A" : "S";
  with_type(d, [&](auto type) {
    using T = decltype(type);
    using R = Real<T>;
    int rows = int(m), columns = int(n), lead = std::max(1, rows);
    int lead_right = std::max(1, int(right));
    auto run = [&](T* x, T* first, R* values, T* second, T* work, int room, R* reals, int* whole,
                   int* failed) {
      if constexpr (is_complex_v<T>) {
        static auto* gesdd =
            find<T, void(const char*, const int*, const int*, T*, const int*, R*, T*, const int*,
                         T*, const int*, T*, const int*, R*, int*, int*, size_t)>("gesdd");
        gesdd(job, &rows, &columns, x, &lead, values, first, &lead, second, &lead_right, work,
              &room, reals, whole, failed, 1);
      } else {
        static auto* gesdd =
            find<T, void(const char*, const int*, const int*, T*, const int*, R*, T*, const int*,
                         T*, const int*, T*, const int*, int*, int*, size_t)>("gesdd");
        gesdd(job, &rows, &columns, x, &lead, values, first, &lead, second, &lead_right, work,
              &room, whole, failed, 1);
      }
    };
    T room{};
    R real{};
    int whole_answer = 0, failed = 0;
    run(nullptr, nullptr, nullptr, nullptr, &room, -1, &real, &whole_answer, &failed);
    size_t least = size_t(k), most = size_t(std::max(m, n));
    size_t reals = is_complex_v<T> ? least * std::max(5 * least + 7, 2 * most + 2 * least + 1) : 0;
    each_range(batch, 20 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      std::vector<T> work(static_cast<size_t>(wanted(room)));
      std::vector<R> real_work(reals + 1);
      std::vector<int> whole(8 * least + 1);
      for (int64_t i = begin; i < end; i++)
        run(static_cast<T*>(a) + i * m * n, u ? static_cast<T*>(u) + i * m * left : nullptr,
            static_cast<R*>(s) + i * k, u ? static_cast<T*>(vh) + i * right * n : nullptr,
            work.data(), int(work.size()), real_work.data(), whole.data(), info + i);
    });
  });
}

}  // namespace rl::cpu
