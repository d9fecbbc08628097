// Triangular factors of matrices and what is solved with them.
#include <numeric>

#include "kernels/cpu/blocked.h"
#include "kernels/cpu/small_factor.h"

namespace rl::cpu {

using namespace lapack;

namespace {

double cube(int64_t n) { return double(n) * double(n) * double(n); }

}  // namespace

void cholesky(DType d, int64_t batch, int64_t n, void* a, bool upper, int32_t* info) {
  with_type(d, [&](auto type) {
    using T = decltype(type);
    static auto* potrf =
        find<T, void(const char*, const int*, T*, const int*, int*, size_t)>("potrf");
    each_range(batch, cube(n) / 3, [&](int64_t begin, int64_t end) {
      int size = int(n), lead = std::max(1, size);
      for (int64_t i = begin; i < end; i++) {
        T* x = static_cast<T*>(a) + i * n * n;
        bool cut = false;
        if constexpr (!is_complex_v<T>) cut = n >= kLarge && !upper;
        if (n <= kSmall) {
          info[i] = small_cholesky(n, x, upper);
        } else if (cut) {
          if constexpr (!is_complex_v<T>) info[i] = blocked_cholesky(n, x);
        } else {
          potrf(upper ? "U" : "L", &size, x, &lead, info + i, 1);
        }
        for (int64_t c = 0; c < n; c++) {
          T* column = x + c * n;
          if (upper) std::fill(column + c + 1, column + n, T(0));
          else std::fill(column, column + c, T(0));
        }
      }
    });
  });
}

void lu(DType d, int64_t batch, int64_t m, int64_t n, void* a, int32_t* pivots, int32_t* info) {
  int64_t k = std::min(m, n);
  with_type(d, [&](auto type) {
    using T = decltype(type);
    static auto* getrf = find<T, void(const int*, const int*, T*, const int*, int*, int*)>("getrf");
    each_range(batch, double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      int rows = int(m), columns = int(n), lead = std::max(1, rows);
      for (int64_t i = begin; i < end; i++) {
        T* x = static_cast<T*>(a) + i * m * n;
        if (m <= kSmall) info[i] = small_lu(m, n, x, pivots + i * k);
        else if (k >= kLarge) info[i] = blocked_lu(m, n, x, pivots + i * k);
        else getrf(&rows, &columns, x, &lead, pivots + i * k, info + i);
      }
    });
  });
}

void lu_order(const int32_t* pivots, int64_t batch, int64_t k, int64_t m, bool inverse,
              int64_t* order) {
  std::vector<int64_t> rows(static_cast<size_t>(m));
  for (int64_t i = 0; i < batch; i++, pivots += k, order += m) {
    std::iota(rows.begin(), rows.end(), 0);
    for (int64_t r = 0; r < k; r++) std::swap(rows[size_t(r)], rows[size_t(pivots[r] - 1)]);
    for (int64_t r = 0; r < m; r++) {
      if (inverse) order[rows[size_t(r)]] = r;
      else order[r] = rows[size_t(r)];
    }
  }
}

void lu_solve(DType d, int64_t batch, int64_t n, int64_t columns, const void* lu,
              const int32_t* pivots, void* b, MatrixForm form) {
  with_type(d, [&](auto type) {
    using T = decltype(type);
    static auto* getrs = find<T, void(const char*, const int*, const int*, const T*, const int*,
                                      const int*, T*, const int*, int*, size_t)>("getrs");
    const char* letter = form == MatrixForm::Plain ? "N" : form == MatrixForm::Adjoint ? "C" : "T";
    // Wide right hand sides are cut into strips of columns.
    int64_t strip = n >= kLarge ? kStrip : columns, strips = (columns + strip - 1) / strip;
    double work = double(n) * double(n) * double(strip);
    each_range(batch * strips, work, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        int64_t from = i % strips * strip, at = i / strips;
        int size = int(n), lead = std::max(1, size), failed = 0;
        int others = int(std::min(strip, columns - from));
        const T* factors = static_cast<const T*>(lu) + at * n * n;
        T* x = static_cast<T*>(b) + (at * columns + from) * n;
        if (n <= kSmall && form == MatrixForm::Plain)
          small_lu_solve(n, others, factors, pivots + at * n, x);
        else getrs(letter, &size, &others, factors, &lead, pivots + at * n, x, &lead, &failed, 1);
      }
    });
  });
}

namespace {

template <class T>
void invert_small(int64_t n, T* a, int32_t* pivots, T* factors, int32_t* info) {
  *info = small_lu(n, n, a, pivots);
  if (*info) return;
  std::copy(a, a + n * n, factors);
  std::fill(a, a + n * n, T(0));
  for (int64_t i = 0; i < n; i++) a[i * n + i] = T(1);
  small_lu_solve(n, n, factors, pivots, a);
}

// By the factors and the columns of the identity.
template <class T>
void invert_large(int64_t n, T* a, int32_t* info) {
  std::vector<T> factors(a, a + n * n);
  std::vector<int32_t> pivots(static_cast<size_t>(n));
  *info = blocked_lu(n, n, factors.data(), pivots.data());
  if (*info) return;
  std::fill(a, a + n * n, T(0));
  for (int64_t i = 0; i < n; i++) a[i * n + i] = T(1);
  lu_solve(dtype_of<T>::value, 1, n, n, factors.data(), pivots.data(), a, MatrixForm::Plain);
}

}  // namespace

void inverse(DType d, int64_t batch, int64_t n, void* a, int32_t* info) {
  with_type(d, [&](auto type) {
    using T = decltype(type);
    static auto* getrf = find<T, void(const int*, const int*, T*, const int*, int*, int*)>("getrf");
    static auto* getri =
        find<T, void(const int*, T*, const int*, const int*, T*, const int*, int*)>("getri");
    int size = int(n), lead = std::max(1, size), query = -1, failed = 0;
    T answer{};
    getri(&size, nullptr, &lead, nullptr, &answer, &query, &failed);
    int room = wanted(answer);
    each_range(batch, 2 * cube(n), [&](int64_t begin, int64_t end) {
      std::vector<T> work(std::max(size_t(room), n <= kSmall ? size_t(n * n) : 0));
      std::vector<int> pivots(static_cast<size_t>(n));
      int length = room, rows = size, none = 0;
      for (int64_t i = begin; i < end; i++) {
        T* x = static_cast<T*>(a) + i * n * n;
        bool large = n >= kLarge, small = n <= kSmall;
        if (small) invert_small(n, x, pivots.data(), work.data(), info + i);
        else if (large) invert_large(n, x, info + i);
        else getrf(&rows, &rows, x, &lead, pivots.data(), info + i);
        // Of a singular matrix nothing is said but that.
        if (info[i] > 0) std::fill(x, x + n * n, T(std::numeric_limits<Real<T>>::quiet_NaN()));
        else if (!large && !small)
          getri(&rows, x, &lead, pivots.data(), work.data(), &length, &none);
      }
    });
  });
}

namespace {

template <class T>
void triangular(const char* side, const char* part, const char* form, const char* unit, int m,
                int n, const T* a, int lead, T* b) {
  static auto* trsm =
      find<T, void(const char*, const char*, const char*, const char*, const int*, const int*,
                   const T*, const T*, const int*, T*, const int*, size_t, size_t, size_t, size_t)>(
          "trsm");
  T one(1);
  int lead_b = std::max(1, m);
  trsm(side, part, form, unit, &m, &n, &one, a, &lead, b, &lead_b, 1, 1, 1, 1);
}

}  // namespace

void solve_triangular(DType d, int64_t batch, int64_t n, int64_t others, MatrixRef a,
                      int64_t a_batch, void* b, bool upper, bool unit, bool right) {
  bool columns = a.row_stride == 1 || n == 1;
  int lead = int(std::max<int64_t>({1, n, columns ? a.col_stride : a.row_stride}));
  const char* part = upper == columns ? "U" : "L";  // rows are the columns of the transpose
  int rows = int(right ? others : n), width = int(right ? n : others);
  with_type(d, [&](auto type) {
    using T = decltype(type);
    each_range(batch, double(n) * double(n) * double(others), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        triangular(right ? "R" : "L", part, columns ? "N" : "T", unit ? "U" : "N", rows, width,
                   static_cast<const T*>(a.data) + i * a_batch, lead,
                   static_cast<T*>(b) + i * n * others);
    });
  });
}

void ldl(DType d, int64_t batch, int64_t n, void* a, int32_t* pivots, bool hermitian,
         int32_t* info) {
  with_type(d, [&](auto type) {
    using T = decltype(type);
    using F = void(const char*, const int*, T*, const int*, int*, T*, const int*, int*, size_t);
    static F* plain = find<T, F>("sytrf");
    static F* other = is_complex_v<T> ? find<T, F>("hetrf") : plain;
    F* factor = hermitian ? other : plain;
    int size = int(n), lead = std::max(1, size), query = -1, failed = 0;
    T answer{};
    factor("L", &size, nullptr, &lead, nullptr, &answer, &query, &failed, 1);
    int room = wanted(answer);
    each_range(batch, cube(n) / 3, [&](int64_t begin, int64_t end) {
      std::vector<T> work(static_cast<size_t>(room));
      int length = room, rows = size;
      for (int64_t i = begin; i < end; i++) {
        T* x = static_cast<T*>(a) + i * n * n;
        factor("L", &rows, x, &lead, pivots + i * n, work.data(), &length, info + i, 1);
        for (int64_t c = 0; c < n; c++) std::fill(x + c * n, x + c * n + c, T(0));
      }
    });
  });
}

// Whether LAPACK stays inside the matrix: rows of blocks of two come negative, in pairs.
static bool are_pivots(const int32_t* pivots, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    int64_t row = std::abs(int64_t(pivots[i]));
    if (row < 1 || row > n) return false;
  }
  for (int64_t i = 0; i < n; i++)
    if (pivots[i] < 0 && (++i == n || pivots[i] > 0)) return false;
  return true;
}

void ldl_solve(DType d, int64_t batch, int64_t n, int64_t columns, const void* a,
               const int32_t* pivots, void* b, bool hermitian) {
  with_type(d, [&](auto type) {
    using T = decltype(type);
    using F = void(const char*, const int*, const int*, const T*, const int*, const int*, T*,
                   const int*, int*, size_t);
    static F* plain = find<T, F>("sytrs");
    static F* other = is_complex_v<T> ? find<T, F>("hetrs") : plain;
    each_range(batch, double(n) * double(n) * double(columns), [&](int64_t begin, int64_t end) {
      int size = int(n), others = int(columns), lead = std::max(1, size), failed = 0;
      for (int64_t i = begin; i < end; i++) {
        T* x = static_cast<T*>(b) + i * n * columns;
        if (!are_pivots(pivots + i * n, n))
          std::fill(x, x + n * columns, T(std::numeric_limits<Real<T>>::quiet_NaN()));
        else
          (hermitian ? other : plain)("L", &size, &others, static_cast<const T*>(a) + i * n * n,
                                      &lead, pivots + i * n, x, &lead, &failed, 1);
      }
    });
  });
}

Outside find_failure(const int32_t* info, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (info[i] != 0) return {i, info[i]};
  return {};
}

}  // namespace rl::cpu
