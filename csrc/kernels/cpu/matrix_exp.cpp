// The exponential of matrices: Pade approximants after scaling, then squares (Higham, 2005).
#include "kernels/cpu/lapack.h"
#include "kernels/cpu/linalg.h"

namespace rl::cpu {

using namespace lapack;

namespace {

// The largest norm for which the approximant of a degree is exact to the last digit.
struct Degree {
  int degree;
  double single, twice;
};
constexpr Degree kDegrees[] = {{3, 4.258730016922831e-1, 1.495585217958292e-2},
                               {5, 1.880152677804762, 2.539398330063230e-1},
                               {7, 3.925724783138660, 9.504178996162932e-1},
                               {9, 0, 2.097847961257068},
                               {13, 0, 5.371920351148152}};

template <class T>
class Exponential {
 public:
  explicit Exponential(int64_t n) : n_(n), size_(size_t(n * n)), pivots_(size_t(n)) {
    for (auto& room : rooms_) room.resize(size_);
  }

  void run(const T* a, T* y) {
    constexpr bool single = sizeof(Real<T>) == 4;
    double norm = one_norm(a);
    if (!(norm <= std::numeric_limits<double>::max()))
      return std::fill(y, y + size_, T(std::numeric_limits<Real<T>>::quiet_NaN()));
    int degree = single ? 7 : 13, squares = 0;
    for (const Degree& d : kDegrees)
      if (norm <= (single ? d.single : d.twice)) {
        degree = d.degree;
        break;
      }
    double largest = single ? kDegrees[2].single : kDegrees[4].twice;
    if (norm > largest) squares = std::max(0, int(std::ceil(std::log2(norm / largest))));
    T* x = rooms_[0].data();
    Real<T> factor = Real<T>(std::ldexp(1.0, -squares));
    for (size_t i = 0; i < size_; i++) x[i] = a[i] * factor;
    approximate(x, degree, y);
    for (int i = 0; i < squares; i++) {
      multiply(y, y, x);
      std::copy(x, x + size_, y);
    }
  }

 private:
  double one_norm(const T* a) const {
    double most = 0;
    for (int64_t c = 0; c < n_; c++) {
      double sum = 0;
      for (int64_t r = 0; r < n_; r++) sum += double(std::abs(a[c * n_ + r]));
      if (!(sum <= most)) most = sum;
    }
    return most;
  }

  void multiply(const T* a, const T* b, T* c) const {
    static auto* gemm = find<T, void(const char*, const char*, const int*, const int*, const int*,
                                     const T*, const T*, const int*, const T*, const int*, const T*,
                                     T*, const int*, size_t, size_t)>("gemm");
    int n = int(n_), lead = std::max(1, n);
    T one(1), zero(0);
    gemm("N", "N", &n, &n, &n, &one, a, &lead, b, &lead, &zero, c, &lead, 1, 1);
  }

  // sum += c * m, where m none is the identity.
  void add(T* sum, double c, const T* m) const {
    if (m)
      for (size_t i = 0; i < size_; i++) sum[i] += Real<T>(c) * m[i];
    else
      for (int64_t i = 0; i < n_; i++) sum[i * n_ + i] += Real<T>(c);
  }

  // y = (v - u)^-1 * (v + u), u of the odd powers of x and v of the even ones.
  void approximate(const T* x, int degree, T* y) {
    T *x2 = rooms_[1].data(), *x4 = rooms_[2].data(), *x6 = rooms_[3].data(),
      *sum = rooms_[4].data(), *v = rooms_[5].data(), *x8 = rooms_[6].data();
    double b[14];
    coefficients(degree, b);
    multiply(x, x, x2);
    if (degree >= 5) multiply(x2, x2, x4);
    if (degree >= 7) multiply(x4, x2, x6);
    if (degree == 9) multiply(x4, x4, x8);
    const T* even[] = {nullptr, x2, x4, x6, x8};
    std::fill(sum, sum + size_, T(0));
    std::fill(v, v + size_, T(0));
    if (degree == 13) {
      for (int i = 1; i <= 3; i++) {
        add(sum, b[7 + 2 * i], even[i]);
        add(v, b[6 + 2 * i], even[i]);
      }
      multiply(x6, sum, x8);
      std::copy(x8, x8 + size_, sum);
      multiply(x6, v, x8);
      std::copy(x8, x8 + size_, v);
      for (int i = 0; i <= 3; i++) {
        add(sum, b[1 + 2 * i], even[i]);
        add(v, b[2 * i], even[i]);
      }
    } else {
      for (int i = 0; 2 * i < degree; i++) {
        add(sum, b[1 + 2 * i], even[i]);
        add(v, b[2 * i], even[i]);
      }
    }
    multiply(x, sum, x2);  // u
    for (size_t i = 0; i < size_; i++) {
      y[i] = v[i] + x2[i];
      v[i] -= x2[i];
    }
    static auto* gesv =
        find<T, void(const int*, const int*, T*, const int*, int*, T*, const int*, int*)>("gesv");
    int n = int(n_), lead = std::max(1, n), failed = 0;
    gesv(&n, &n, v, &lead, pivots_.data(), y, &lead, &failed);
  }

  // (2q - k)! q! / ((2q)! k! (q - k)!), as whole numbers: the last is 1.
  static void coefficients(int q, double* b) {
    b[q] = 1;
    for (int k = q; k > 0; k--) b[k - 1] = b[k] * double(2 * q - k + 1) * k / double(q - k + 1);
  }

  int64_t n_;
  size_t size_;
  std::vector<int> pivots_;
  std::vector<T> rooms_[7];
};

}  // namespace

void matrix_exp(DType d, int64_t batch, int64_t n, const void* a, void* y) {
  with_type(d, [&](auto type) {
    using T = decltype(type);
    double work = 20 * double(n) * double(n) * double(n);
    each_range(batch, work, [&](int64_t begin, int64_t end) {
      Exponential<T> exponential(n);
      for (int64_t i = begin; i < end; i++)
        exponential.run(static_cast<const T*>(a) + i * n * n, static_cast<T*>(y) + i * n * n);
    });
  });
}

}  // namespace rl::cpu
