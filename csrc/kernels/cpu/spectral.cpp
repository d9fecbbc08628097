// Eigenvalues and singular values.
#include <limits>
#include <utility>

#include "kernels/cpu/blocked.h"
#include "kernels/cpu/move2d.h"

namespace rl::cpu {

using namespace lapack;

namespace {

constexpr int64_t kPanel = 32;   // columns, and as many rows, that become two diagonals at a time
constexpr int64_t kTerms = 128;  // of a sum in one run: longer ones lose digits

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

// Reflections in the columns of v, k of them from height m down, applied to the columns of c. Those
// of a block are 1 - v t v' together.
template <class T>
void apply_blocks(int64_t m, int64_t k, const T* v, int64_t lead, const T* tau, T* c,
                  int64_t columns) {
  static auto* larft = find<T, void(const char*, const char*, const int*, const int*, const T*,
                                    const int*, const T*, T*, const int*, size_t, size_t)>("larft");
  constexpr DType type = dtype_of<T>::value;
  auto room = [](int64_t count) { return std::vector<T>(static_cast<size_t>(count)); };
  std::vector<T> whole = room(m * kBlock), sums = room(columns * kBlock), turned = room(m * kBlock);
  for (int64_t j = (k - 1) / kBlock * kBlock; j >= 0; j -= kBlock) {
    int64_t width = std::min(kBlock, k - j), height = m - j;
    for (int64_t i = 0; i < width; i++) {
      T* column = whole.data() + i * height;
      std::fill(column, column + i, T(0));
      column[i] = T(1);
      std::copy(v + j + i + 1 + (j + i) * lead, v + m + (j + i) * lead, column + i + 1);
    }
    std::vector<T> t = room(width * width);
    int rows = int(height), count = int(width);
    larft("F", "C", &rows, &count, whole.data(), &rows, tau + j, t.data(), &count, 1, 1);
    gemm(type, width, height, width, 1, {t.data(), width, 1}, {whole.data(), height, 1}, 0,
         turned.data(), height);
    for (int64_t i = 0; i < height; i += kTerms)
      gemm(type, columns, width, std::min(kTerms, height - i), 1, {c + j + i, lead, 1},
           {whole.data() + i, 1, height}, i > 0, sums.data(), width);
    gemm(type, columns, height, width, -1, {sums.data(), width, 1}, {turned.data(), height, 1}, 1,
         c + j, lead);
  }
}

// Whether LAPACK would compute with these numbers as they are; others it scales first.
template <class T>
bool is_moderate(const T* a, int64_t count) {
  T most = 0, zero = 0;  // or NaN, where a number is not finite
  for (int64_t i = 0; i < count; i++) {
    most = std::max(most, std::abs(a[i]));
    zero += a[i] * 0;
  }
  return zero == 0 && most > std::sqrt(std::numeric_limits<T>::min()) * 1024 &&
         most < std::sqrt(std::numeric_limits<T>::max()) / 1024;
}

template <class T>
void transpose(int64_t n, const T* from, int64_t lead, T* to) {
  constexpr int64_t size = sizeof(T);
  move2d(size, reinterpret_cast<char*>(to), size, n * size, reinterpret_cast<const char*>(from),
         lead * size, size, n, n);
}

// A large real matrix, from its lower triangle: to three diagonals, their eigenvectors by LAPACK,
// and back by reflections, which threads share.
template <class T>
void large_eigh(int64_t n, T* a, T* w, int* info) {
  static auto* sytrd = find<T, void(const char*, const int*, T*, const int*, T*, T*, T*, T*,
                                    const int*, int*, size_t)>("sytrd");
  static auto* stedc = find<T, void(const char*, const int*, T*, T*, T*, const int*, T*, const int*,
                                    int*, const int*, int*, size_t)>("stedc");
  int size = int(n), room = int(1 + 4 * n + n * n), whole_room = int(3 + 5 * n), none = 0;
  std::vector<T> work(static_cast<size_t>(room)), beside(size_t(n), T(0)), tau(size_t(n), T(0));
  std::vector<T> z(static_cast<size_t>(n * n));
  std::vector<int> whole(static_cast<size_t>(whole_room));
  sytrd("L", &size, a, &size, w, beside.data(), tau.data(), work.data(), &room, &none, 1);
  stedc("I", &size, w, beside.data(), z.data(), &size, work.data(), &room, whole.data(),
        &whole_room, info, 1);
  if (*info == 0) apply_blocks(n - 1, n - 1, a + 1, n, tau.data(), z.data() + 1, n);
  std::copy(z.begin(), z.end(), a);
}

// y = alpha * a x + beta * y, or with a's transpose; a [m, n] in columns, y's step is one.
template <class T>
void multiply_vector(const char* form, int64_t m, int64_t n, T alpha, const T* a, int64_t lead,
                     const T* x, int64_t step, T beta, T* y) {
  static auto* gemv =
      find<T, void(const char*, const int*, const int*, const T*, const T*, const int*, const T*,
                   const int*, const T*, T*, const int*, size_t)>("gemv");
  int rows = int(m), columns = int(n), la = int(lead), step_x = int(step), one = 1;
  gemv(form, &rows, &columns, &alpha, a, &la, x, &step_x, &beta, y, &one, 1);
}

// A large real matrix, at least as high as wide, to two diagonals, by reflections in turns of a
// column and a row. In a panel of them a stays as it was: the true matrix is a - left * right'.
// left has the columns v, x, v, x, ... and right y, u, y, u, ..., where v are the vectors of columns,
// u those of rows, and y and x the true matrix's products with them, times tau. Threads share the
// products, in strips. At the end v are in a, below the diagonal, and u in the columns of `rows`,
// below its diagonal.
template <class T>
void bidiagonal(int64_t m, int64_t n, T* a, T* diagonal, T* beside, T* tau_left, T* tau_right,
                T* rows) {
  static auto* larfg = find<T, void(const int*, T*, T*, const int*, T*)>("larfg");
  static auto* gebrd =
      find<T, void(const int*, const int*, T*, const int*, T*, T*, T*, T*, T*, const int*, int*)>(
          "gebrd");
  constexpr int64_t width = 2 * kPanel;
  struct Side {
    int64_t lead;  // off powers of two, whose lines would share places in the cache
    std::vector<T> columns;
    explicit Side(int64_t height) : lead(height + 16), columns(size_t(width * lead)) {}
    T* at(int64_t row, int64_t column) { return columns.data() + row + column * lead; }
  } left(m), right(n);
  std::vector<T> sums(static_cast<size_t>(width));
  // Makes column k of a side the vector of a reflection, and `sums` its products with those before.
  auto reflect = [&](Side& own, int64_t from, int64_t to, int64_t k, T& value, T& tau, T* keep) {
    T* v = own.at(from, k);
    int size = int(to - from), one = 1;
    larfg(&size, v, v + 1, &one, &tau);
    value = std::exchange(*v, T(1));
    std::copy(v, v + size, keep);
    multiply_vector<T>("T", size, k, 1, own.at(from, 0), own.lead, v, 1, 0, sums.data());
  };
  // A strip of the other side. Column k has a's product with that vector, and gets the true matrix's;
  // column k + 1 has the next row or column of a, its `line`th, and gets the true one's.
  auto follow = [&](Side& own, Side& other, int64_t begin, int64_t size, int64_t k, T tau,
                    int64_t line) {
    multiply_vector<T>("N", size, k, -tau, other.at(begin, 0), other.lead, sums.data(), 1, 1,
                       other.at(begin, k));
    if (k + 1 < width)
      multiply_vector<T>("N", size, k + 1, -1, other.at(begin, 0), other.lead, own.at(line, 0),
                         own.lead, 1, other.at(begin, k + 1));
  };
  int64_t j = 0;
  for (; n - j > kLarge; j += kPanel) {
    std::copy(a + j + j * m, a + m + j * m, left.at(j, 0));
    for (int64_t i = j, k = 0; k < width; i++, k += 2) {
      int64_t next = i + 1;
      reflect(left, i, m, k, diagonal[i], tau_left[i], a + i + i * m);
      parallel_for(n - next, kStrip, [&](int64_t begin, int64_t end) {
        int64_t size = end - begin, at = next + begin;
        multiply_vector<T>("T", m - i, size, tau_left[i], a + i + at * m, m, left.at(i, k), 1, 0,
                           right.at(at, k));
        for (int64_t c = at; c < at + size; c++) *right.at(c, k + 1) = a[i + c * m];
        follow(left, right, at, size, k, tau_left[i], i);
      });
      reflect(right, next, n, k + 1, beside[i], tau_right[i], rows + next + i * n);
      parallel_for(m - next, kStrip, [&](int64_t begin, int64_t end) {
        int64_t size = end - begin, at = next + begin;
        multiply_vector<T>("N", size, n - next, tau_right[i], a + at + next * m, m,
                           right.at(next, k + 1), 1, 0, left.at(at, k + 1));
        if (k + 2 < width) std::copy_n(a + at + next * m, size, left.at(at, k + 2));
        follow(right, left, at, size, k + 1, tau_right[i], next);
      });
    }
    int64_t next = j + kPanel;
    subtract_product(m - next, n - next, width, left.at(next, 0), left.lead, right.at(next, 0),
                     right.lead, 1, a + next + next * m, m);
  }
  int height = int(m - j), rest = int(n - j), lead = int(m), none = 0;
  int room = (height + rest) * int(kPanel);
  std::vector<T> work(static_cast<size_t>(room));
  gebrd(&height, &rest, a + j + j * m, &lead, diagonal + j, beside + j, tau_left + j, tau_right + j,
        work.data(), &room, &none);
  for (int64_t i = j; i < n; i++)
    for (int64_t c = i + 1; c < n; c++) rows[c + i * n] = a[i + c * m];
}

// Singular values and, where u is set, vectors of a large real matrix, in the same way; at least as
// high as wide. u has `left` columns.
template <class T>
void large_singular(int64_t m, int64_t n, T* a, T* u, int64_t left, T* s, T* vh, int* info) {
  static auto* bdsdc =
      find<T, void(const char*, const char*, const int*, T*, T*, T*, const int*, T*, const int*, T*,
                   int*, T*, int*, int*, size_t, size_t)>("bdsdc");
  int rows = int(m), columns = int(n);
  std::vector<T> beside(size_t(n), T(0)), tau_left(size_t(n), T(0)), tau_right(size_t(n), T(0));
  std::vector<T> turned(static_cast<size_t>(n * n));
  std::vector<T> work(static_cast<size_t>(u ? 3 * n * n + 4 * n : 4 * n));
  std::vector<int> whole(static_cast<size_t>(8 * n));
  bidiagonal(m, n, a, s, beside.data(), tau_left.data(), tau_right.data(), turned.data());
  if (u) {
    std::fill(u, u + m * left, T(0));
    for (int64_t c = n; c < left; c++) u[c + c * m] = T(1);
  }
  bdsdc("U", u ? "I" : "N", &columns, s, beside.data(), u, &rows, vh, &columns, nullptr, nullptr,
        work.data(), whole.data(), info, 1, 1);
  if (*info != 0 || !u) return;
  apply_blocks(m, n, a, m, tau_left.data(), u, left);
  T* v = work.data();
  transpose(n, vh, n, v);
  apply_blocks(n - 1, n - 1, turned.data() + 1, n, tau_right.data(), v + 1, n);
  transpose(n, v, n, vh);
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
      for (int64_t i = begin; i < end; i++) {
        T* x = static_cast<T*>(a) + i * n * n;
        R* values = static_cast<R*>(w) + i * n;
        if constexpr (!is_complex_v<T>)
          if (n >= kLarge && vectors && !upper && is_moderate(x, n * n)) {
            large_eigh(n, x, values, info + i);
            continue;
          }
        run(x, values, work.data(), int(work.size()), reals.data(), int(reals.size()), whole.data(),
            int(whole.size()), info + i);
      }
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
    T* const u0 = nullptr;
    each_range(batch, 20 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      std::vector<T> work(static_cast<size_t>(wanted(room)));
      std::vector<R> real_work(reals + 1);
      std::vector<int> whole(8 * least + 1);
      for (int64_t i = begin; i < end; i++) {
        T *x = static_cast<T*>(a) + i * m * n, *first = u ? static_cast<T*>(u) + i * m * left : u0;
        T* second = u ? static_cast<T*>(vh) + i * right * n : u0;
        R* values = static_cast<R*>(s) + i * k;
        // Much higher matrices LAPACK factors into q and r first.
        if constexpr (!is_complex_v<T>)
          if (n >= kLarge && m >= n && 6 * m < 11 * n && is_moderate(x, m * n)) {
            large_singular(m, n, x, first, left, values, second, info + i);
            continue;
          }
        run(x, first, values, second, work.data(), int(work.size()), real_work.data(), whole.data(),
            info + i);
      }
    });
  });
}

}  // namespace rl::cpu
