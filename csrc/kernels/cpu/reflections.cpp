// Householder reflections: QR factors and least squares.
#include "kernels/cpu/blocked.h"
#include "kernels/cpu/small_factor.h"

namespace rl::cpu {

using namespace lapack;

void qr(DType d, int64_t batch, int64_t m, int64_t n, void* a, void* tau) {
  int64_t k = std::min(m, n);
  with_type(d, [&](auto type) {
    using T = decltype(type);
    static auto* geqrf =
        find<T, void(const int*, const int*, T*, const int*, T*, T*, const int*, int*)>("geqrf");
    int rows = int(m), columns = int(n), lead = std::max(1, rows), query = -1, failed = 0;
    T answer{};
    geqrf(&rows, &columns, nullptr, &lead, nullptr, &answer, &query, &failed);
    int room = wanted(answer);
    each_range(batch, 2 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      std::vector<T> work(static_cast<size_t>(room));
      int length = room, none = 0;
      for (int64_t i = begin; i < end; i++) {
        T *x = static_cast<T*>(a) + i * m * n, *factors = static_cast<T*>(tau) + i * k;
        if (std::max(m, n) <= kSmall) small_qr(m, n, x, factors);
        else if (k >= kLarge) blocked_qr(m, n, x, factors);
        else geqrf(&rows, &columns, x, &lead, factors, work.data(), &length, &none);
      }
    });
  });
}

void reflect(DType d, int64_t batch, int64_t m, int64_t n, int64_t k, void* a, const void* tau) {
  with_type(d, [&](auto type) {
    using T = decltype(type);
    static auto* orgqr = find<T, void(const int*, const int*, const int*, T*, const int*, const T*,
                                      T*, const int*, int*)>(is_complex_v<T> ? "ungqr" : "orgqr");
    int rows = int(m), columns = int(n), count = int(k), lead = std::max(1, rows);
    int query = -1, failed = 0;
    T answer{};
    orgqr(&rows, &columns, &count, nullptr, &lead, nullptr, &answer, &query, &failed);
    int room = wanted(answer);
    each_range(batch, 4 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      std::vector<T> work(static_cast<size_t>(room));
      int length = room, none = 0;
      for (int64_t i = begin; i < end; i++) {
        T* x = static_cast<T*>(a) + i * m * n;
        const T* factors = static_cast<const T*>(tau) + i * k;
        if (m <= kSmall) small_reflect(m, n, k, x, factors);
        else if (k >= kLarge) blocked_reflect(m, n, k, x, factors);
        else orgqr(&rows, &columns, &count, x, &lead, factors, work.data(), &length, &none);
      }
    });
  });
}

void apply_reflections(DType d, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a,
                       const void* tau, void* c, bool right, bool adjoint) {
  int64_t size = right ? n : m;
  const char* side = right ? "R" : "L";
  with_type(d, [&](auto type) {
    using T = decltype(type);
    static auto* ormqr =
        find<T, void(const char*, const char*, const int*, const int*, const int*, const T*,
                     const int*, const T*, T*, const int*, T*, const int*, int*, size_t, size_t)>(
            is_complex_v<T> ? "unmqr" : "ormqr");
    const char* form = !adjoint ? "N" : is_complex_v<T> ? "C" : "T";
    int rows = int(m), columns = int(n), count = int(k), lead = std::max(1, int(size));
    int lead_c = std::max(1, rows), query = -1, failed = 0;
    T answer{};
    ormqr(side, form, &rows, &columns, &count, nullptr, &lead, nullptr, nullptr, &lead_c, &answer,
          &query, &failed, 1, 1);
    int room = wanted(answer);
    each_range(batch, 4 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      std::vector<T> work(static_cast<size_t>(room));
      int length = room, none = 0;
      for (int64_t i = begin; i < end; i++)
        ormqr(side, form, &rows, &columns, &count, static_cast<const T*>(a) + i * size * k, &lead,
              static_cast<const T*>(tau) + i * k, static_cast<T*>(c) + i * m * n, &lead_c,
              work.data(), &length, &none, 1, 1);
    });
  });
}

namespace {

template <class T>
struct Problem {
  using R = Real<T>;
  int rows, columns, others, lead, lead_b;
  R rcond;
  LeastSquares driver;

  // A query where `room` is -1.
  void run(T* a, T* b, R* s, int* rank, int* order, T* work, int room, R* reals, int* whole,
           int* failed) {
    if (driver == LeastSquares::Gels) {
      static auto* gels =
          find<T, void(const char*, const int*, const int*, const int*, T*, const int*, T*,
                       const int*, T*, const int*, int*, size_t)>("gels");
      gels("N", &rows, &columns, &others, a, &lead, b, &lead_b, work, &room, failed, 1);
    } else if constexpr (is_complex_v<T>) {
      static auto* gelsy =
          find<T, void(const int*, const int*, const int*, T*, const int*, T*, const int*, int*,
                       const R*, int*, T*, const int*, R*, int*)>("gelsy");
      static auto* gelsd =
          find<T, void(const int*, const int*, const int*, T*, const int*, T*, const int*, R*,
                       const R*, int*, T*, const int*, R*, int*, int*)>("gelsd");
      static auto* gelss =
          find<T, void(const int*, const int*, const int*, T*, const int*, T*, const int*, R*,
                       const R*, int*, T*, const int*, R*, int*)>("gelss");
      if (driver == LeastSquares::Gelsy)
        gelsy(&rows, &columns, &others, a, &lead, b, &lead_b, order, &rcond, rank, work, &room,
              reals, failed);
      else if (driver == LeastSquares::Gelsd)
        gelsd(&rows, &columns, &others, a, &lead, b, &lead_b, s, &rcond, rank, work, &room, reals,
              whole, failed);
      else
        gelss(&rows, &columns, &others, a, &lead, b, &lead_b, s, &rcond, rank, work, &room, reals,
              failed);
    } else {
      static auto* gelsy =
          find<T, void(const int*, const int*, const int*, T*, const int*, T*, const int*, int*,
                       const R*, int*, T*, const int*, int*)>("gelsy");
      static auto* gelsd =
          find<T, void(const int*, const int*, const int*, T*, const int*, T*, const int*, R*,
                       const R*, int*, T*, const int*, int*, int*)>("gelsd");
      static auto* gelss =
          find<T, void(const int*, const int*, const int*, T*, const int*, T*, const int*, R*,
                       const R*, int*, T*, const int*, int*)>("gelss");
      if (driver == LeastSquares::Gelsy)
        gelsy(&rows, &columns, &others, a, &lead, b, &lead_b, order, &rcond, rank, work, &room,
              failed);
      else if (driver == LeastSquares::Gelsd)
        gelsd(&rows, &columns, &others, a, &lead, b, &lead_b, s, &rcond, rank, work, &room, whole,
              failed);
      else
        gelss(&rows, &columns, &others, a, &lead, b, &lead_b, s, &rcond, rank, work, &room, failed);
    }
  }
};

}  // namespace

void least_squares(DType d, int64_t batch, int64_t m, int64_t n, int64_t columns,
                   LeastSquares driver, void* a, void* b, double rcond, int64_t* rank, void* s,
                   int32_t* info) {
  int64_t k = std::min(m, n), high = std::max(m, n);
  with_type(d, [&](auto type) {
    using T = decltype(type);
    using R = Real<T>;
    Problem<T> problem{int(m),   int(n), int(columns), std::max(1, int(m)), std::max(1, int(high)),
                       R(rcond), driver};
    T answer{};
    R real_answer{};
    int whole_answer = 0, failed = 0, ignored = 0;
    problem.run(nullptr, nullptr, nullptr, &ignored, nullptr, &answer, -1, &real_answer,
                &whole_answer, &failed);
    // gelsd says what else it needs; the others need this much.
    size_t reals = driver == LeastSquares::Gelsd ? size_t(wanted(real_answer))
                                                 : size_t(std::max(2 * n, 5 * k)) + 1;
    each_range(batch, 4 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      std::vector<T> work(static_cast<size_t>(wanted(answer)));
      std::vector<R> real_work(reals), values(static_cast<size_t>(k + 1));
      std::vector<int> whole(static_cast<size_t>(std::max(1, whole_answer)));
      Problem<T> own = problem;
      for (int64_t i = begin; i < end; i++) {
        std::vector<int> order(static_cast<size_t>(n + 1));
        int found = 0;
        own.run(static_cast<T*>(a) + i * m * n, static_cast<T*>(b) + i * high * columns,
                s ? static_cast<R*>(s) + i * k : values.data(), &found, order.data(), work.data(),
                int(work.size()), real_work.data(), whole.data(), info + i);
        if (rank) rank[i] = found;
      }
    });
  });
}

}  // namespace rl::cpu
