// Random numbers into existing memory: the methods whose names end in an underscore.
#include <algorithm>

#include "autograd/batch.h"
#include "call/recording.h"
#include "call/write.h"
#include "kernels/kernels.h"
#include "ops/random/random.h"

namespace rl {

namespace {

[[noreturn]] void fail_dtype(const char* op, DType d) {
  fail_as(PyExc_NotImplementedError, "\"", op, "\" not implemented for '", info(d).tensor_name,
          "'");
}

double greatest(DType d) {
  switch (real_of(d)) {
    case DType::Bool: return 1;
    case DType::U16: return 65535;
    case DType::U32: return 4294967295.0;
    case DType::U64: return 0x1p64;
    case DType::U8: return 255;
    case DType::I8: return 127;
    case DType::I16: return 32767;
    case DType::I32: return 2147483647.0;
    case DType::I64: return 0x1p63;
    case DType::F16: return 65504;
    case DType::BF16: return 3.38953139e38;
    case DType::F32: return 3.40282347e38;
    default: return 1.7976931348623157e308;
  }
}

// The dimensions of t from the outermost in memory to the innermost.
Ints memory_order(const Tensor* t) {
  Ints order;
  for (int d = 0; d < t->dim(); d++) order.push_back(d);
  auto step = [t](int64_t d) { return t->strides[int(d)]; };
  if (t->dim() > 1)
    std::stable_sort(&order[0], &order[0] + t->dim(),
                     [&](int64_t a, int64_t b) { return step(a) > step(b); });
  return order;
}

Var permuted(const Var& v, const Ints& order) {
  Ints sizes, strides;
  for (int64_t d : order) {
    sizes.push_back(v.sizes()[int(d)]);
    strides.push_back(v->strides[int(d)]);
  }
  return alias(v.get(), std::move(sizes), std::move(strides), v->offset);
}

// Calls fill(data) for memory of t's elements in row-major order.
template <class Fill>
void fill_layout(Tensor* t, const Fill& fill) {
  Var target = t->contiguous ? Var(t) : empty(t->sizes, t->dtype, t->device());
  fill(target.get());
  if (target.get() != t) ops::copy_data(t, target.get());
}

// counter(kernels, dtype, data, n, stream) for all elements in row-major order.
template <class Counter>
void fill_counter(Tensor* t, Generator* generator, const Counter& counter) {
  Stream stream(generator, t->numel * (is_complex(t->dtype) ? 2 : 1));
  fill_layout(t, [&](Tensor* target) {
    Launch launch(double(t->numel) * 4, {target});
    counter(on(target), t->dtype, target->data(), t->numel, stream);
  });
}

// torch(engine, dtype, data, n) for all elements in the order of memory. The lock is kept: the
// engine has one state.
template <class Torch>
void fill_torch(Tensor* t, Generator* generator, const Torch& torch) {
  if (!has_data(t)) return;
  if (recording) refuse_recording("this distribution");
  Var view = t->contiguous ? Var(t) : permuted(Var(t), memory_order(t));
  fill_layout(view.get(), [&](Tensor* target) {
    torch(*generator->mersenne, t->dtype, target->data(), t->numel);
  });
}

// As the levels of vmap ask: numbers for every sample, or the same for all.
template <class Fill>
void fill_in_vmap(Tensor* t, const Fill& fill) {
  HiddenDims different = random_levels();
  if (different && !batch_of(t)) give_samples(t, different);
  const Batch* batch = batch_of(t);
  if (!batch) return fill(t);
  Var all = all_samples(t);
  Ints drawn = all.sizes();
  for (int i = 0; i < batch->levels.size(); i++)
    if (!different.levels.contains(batch->levels[i])) drawn[i] = 1;
  if (drawn == all.sizes()) return fill(all.get());
  Var few = empty(drawn, t->dtype, t->device());
  fill(few.get());
  ops::copy_data(all.get(), few.get());
}

template <class Counter, class Torch>
void fill_rows(Tensor* t, Generator* generator, const Counter& counter, const Torch& torch) {
  if (is_stored(t->dtype)) {
    if (is_float8(t->dtype)) refuse_stored("random numbers", t->dtype);
    Plain plain;
    Var wide = ops::to(Var(t), compute_type(t->dtype));
    fill_rows(wide.get(), generator, counter, torch);
    return ops::copy_data(t, wide.get());
  }
  generator = generator_on(t->device(), generator);
  auto fill = [&](Tensor* target) {
    if (target->numel == 0 || !has_data(target)) return;
    auto draw = [generator, counter, torch](Tensor* into) {
      if (generator->mersenne) fill_torch(into, generator, torch);
      else fill_counter(into, generator, counter);
    };
    if (!recording) return draw(target);
    recording->hold(target);
    recording->vary(target);
    auto* object = reinterpret_cast<PyObject*>(generator);
    Py_INCREF(object);
    std::shared_ptr<PyObject> alive(object, Py_DecRef);
    act("random", [kept = Var(target), alive, draw] { draw(kept.get()); });
  };
  if (vmap_levels.empty()) fill(t);
  else fill_in_vmap(t, fill);
}

}  // namespace

void check_uniform(DType dtype, double from, double to) {
  if (is_integral(dtype)) fail_dtype("check_uniform_bounds", dtype);
  double most = greatest(dtype);
  check(from >= -most && from <= most, "from is out of bounds for ", name(dtype), ": ", from);
  check(to >= -most && to <= most, "to is out of bounds for ", name(dtype), ": ", to);
  check(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
        " > to=", to);
  check(to - from <= most, "uniform_ expects to-from <= ", most, " for ", name(dtype),
        ", but found to=", to, " and from=", from, " which result in to-from to exceed the limit");
}

void check_normal(DType dtype, double std) {
  if (is_integral(dtype)) fail_dtype("normal_kernel_cpu", dtype);
  check(std >= 0, "normal expects std >= 0.0, but found std ", std);
}

void check_integers(DType dtype, int64_t low, int64_t high) {
  check(!is_complex(dtype),
        "random_: handles only integral, floating-point and boolean types, got ", name(dtype));
  check(low < high, "random_ expects 'from' to be less than 'to', but got from=", low,
        " >= to=", high);
  double most = greatest(dtype), least = is_floating(dtype) ? -most
                                         : is_unsigned(dtype)
                                             ? 0
                                             : -most - (dtype == DType::I64 ? 0 : 1);
  check(double(low) >= least && double(low) <= most, "from is out of bounds for ", name(dtype),
        ": ", low);
  check(double(high - 1) >= least && double(high - 1) <= most, "to - 1 is out of bounds for ",
        name(dtype), ": ", high - 1);
}

void check_bernoulli(DType dtype, double p) {
  if (is_complex(dtype)) fail_dtype("bernoulli_scalar_cpu_", dtype);
  check(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
}

Var probabilities(const Var& p, const Ints& sizes, Device device) {
  if (!is_floating(p.dtype())) fail_dtype("bernoulli_tensor_cpu_p_", p.dtype());
  GradMode off(false);
  check(can_expand(p.sizes(), sizes), "bernoulli_: probabilities of shape ", p.sizes(),
        " cannot be expanded to ", sizes);
  Var each = ops::contiguous(ops::to(p, DType::F64, device));
  if (each.device() != kHost || recording) return ops::expand(each, sizes);
  const double* x = each->host<double>();
  for (int64_t i = 0; i < each.numel(); i++)
    check(x[i] >= 0 && x[i] <= 1, "bernoulli: Expected p_in >= 0 && p_in <= 1 to be true, but got ",
          x[i]);
  return ops::expand(each, sizes);
}

void fill_uniform(Tensor* t, double from, double to, Generator* generator) {
  check_uniform(t->dtype, from, to);
  int64_t parts = is_complex(t->dtype) ? 2 : 1;
  fill_rows(
      t, generator,
      [=](const kernel::Table& on, DType d, void* out, int64_t n, const Stream& s) {
        on.fill_uniform(real_of(d), out, parts * n, s.seed, s.offset, from, to);
      },
      [=](cpu::Mersenne& m, DType d, void* out, int64_t n) {
        cpu::fill_uniform(m, real_of(d), out, parts * n, from, to);
      });
}

void fill_normal(Tensor* t, double mean, double std, Generator* generator) {
  check_normal(t->dtype, std);
  if (is_complex(t->dtype))
    return fill_normal(ops::view_as_real(alias(t)).get(), mean, std / std::sqrt(2.0), generator);
  bool contiguous = t->contiguous;
  fill_rows(
      t, generator,
      [=](const kernel::Table& on, DType d, void* out, int64_t n, const Stream& s) {
        on.fill_normal(d, out, n, s.seed, s.offset, mean, std);
      },
      [=](cpu::Mersenne& m, DType d, void* out, int64_t n) {
        cpu::fill_normal(m, d, out, n, mean, std, contiguous);
      });
}

namespace {

// An integer as a floating type keeps it. What int64 has not is its least one, on any machine.
int64_t as_stored(DType d, int64_t x) {
  double kept = d == DType::F64   ? double(x)
                : d == DType::F32 ? double(float(x))
                : d == DType::F16 ? double(float(F16(float(x))))
                                  : double(float(BF16(float(x))));
  return std::abs(kept) < 0x1p63 ? int64_t(kept) : INT64_MIN;
}

// How far apart its neighbours are there.
int64_t spacing(DType d, int64_t x) {
  int digits = d == DType::F64 ? 53 : d == DType::F32 ? 24 : d == DType::F16 ? 11 : 8;
  int exponent = std::ilogb(double(x));
  return int64_t(1) << std::max(0, exponent - digits + 1);
}

void fill_range(Tensor* t, int64_t low, uint64_t range, Generator* generator) {
  fill_rows(
      t, generator,
      [=](const kernel::Table& on, DType d, void* out, int64_t n, const Stream& s) {
        on.fill_integers(d, out, n, s.seed, s.offset, low, range);
      },
      [=](cpu::Mersenne& m, DType d, void* out, int64_t n) {
        cpu::fill_integers(m, d, out, n, low, range);
      });
}

}  // namespace

void fill_integers(Tensor* t, int64_t low, int64_t high, Generator* generator) {
  check_integers(t->dtype, low, high);
  if (is_floating(t->dtype)) {
    int64_t first = as_stored(t->dtype, low + 1), last = as_stored(t->dtype, high - 1);
    if (first < low) low = first + spacing(t->dtype, low + 1);
    if (last >= high) high = last - spacing(t->dtype, high - 1);
    check(low < high,
          "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, "
          "but got from=",
          low, " >= to=", high);
  }
  fill_range(t, low, uint64_t(high) - uint64_t(low), generator);
}

void fill_bernoulli(Tensor* t, double p, Generator* generator) {
  check_bernoulli(t->dtype, p);
  fill_rows(
      t, generator,
      [=](const kernel::Table& on, DType d, void* out, int64_t n, const Stream& s) {
        on.fill_bernoulli(d, out, n, s.seed, s.offset, p);
      },
      [=](cpu::Mersenne& m, DType d, void* out, int64_t n) {
        cpu::fill_bernoulli(m, d, out, n, p);
      });
}

void fill_bernoulli(Tensor* t, const Var& probabilities, DType type, Generator* generator) {
  generator = generator_on(t->device(), generator);
  bool by_memory = generator->mersenne && !t->contiguous;
  Var each = ops::contiguous(by_memory ? permuted(probabilities, memory_order(t)) : probabilities);
  fill_rows(
      t, generator,
      [=](const kernel::Table& on, DType d, void* out, int64_t n, const Stream& s) {
        on.fill_bernoulli_each(d, out, each->data<double>(), n, s.seed, s.offset);
      },
      [=](cpu::Mersenne& m, DType d, void* out, int64_t n) {
        cpu::fill_bernoulli_each(m, d, out, each->data<double>(), type == DType::F64, n);
      });
}

namespace {

// What such a write leaves in the history: a result that depends on nothing before it.
#define RL_OVERWRITTEN(Type, name)                                     \
  struct Type : Linear {                                               \
    static constexpr auto signature = "_overwrite(Tensor input)";      \
    static constexpr auto grad_name = name;                            \
    static Var forward(const Var& input) { return input; }             \
    static void vjp(Back& b, const In& input) {                        \
      b[0] = ops::zeros(input.sizes(), input.dtype(), input.device()); \
    }                                                                  \
    static void jvp(Push&, const Var&) {}                              \
  };
RL_OVERWRITTEN(NormalNode, "NormalBackward0")
RL_OVERWRITTEN(UniformNode, "UniformBackward0")
RL_OVERWRITTEN(BernoulliNode, "BernoulliBackward2")
RL_OVERWRITTEN(BernoulliTensorNode, "BernoulliBackward1")
RL_OVERWRITTEN(ExponentialNode, "ExponentialBackward0")
RL_OVERWRITTEN(RandomNode, "RandomBackward2")
RL_OVERWRITTEN(RandomBelowNode, "RandomBackward1")
RL_OVERWRITTEN(RandomBetweenNode, "RandomBackward0")
RL_OVERWRITTEN(LogNormalNode, "LogNormalBackward0")
RL_OVERWRITTEN(GeometricNode, "GeometricBackward0")
RL_OVERWRITTEN(CauchyNode, "CauchyBackward0")

template <class Node, class Write>
Var overwrite(const Var& self, const char* name, const Write& write) {
  write_inplace<Node>(self.get(), name, write, self);
  return self;
}

struct InPlace : Composite {
  static constexpr Family family = Family::Random;
  static constexpr bool function = false;
  static constexpr bool out = false;
};

struct Normal_ : InPlace {
  static constexpr auto signature =
      "normal_(Tensor input, float mean=0, float std=1, *, Generator? generator=None)";
  static constexpr auto doc = "normal_(mean, std): fills with normal numbers.";
  static Var forward(const Var& input, double mean, double std, Generator* generator) {
    check_normal(input.dtype(), std);
    auto write = [&] { fill_normal(input.get(), mean, std, generator); };
    return overwrite<NormalNode>(input, "normal_", write);
  }
};
RL_OP(Normal_)

struct Uniform_ : InPlace {
  static constexpr auto signature =
      "uniform_(Tensor input, float from=0, float to=1, *, Generator? generator=None)";
  static constexpr auto doc = "uniform_(from, to): fills with uniform numbers from [from, to).";
  static Var forward(const Var& input, double from, double to, Generator* generator) {
    check_uniform(input.dtype(), from, to);
    auto write = [&] { fill_uniform(input.get(), from, to, generator); };
    return overwrite<UniformNode>(input, "uniform_", write);
  }
};
RL_OP(Uniform_)

struct BernoulliTensor_ : InPlace {
  static constexpr auto signature =
      "bernoulli_(Tensor input, Tensor p, *, Generator? generator=None)";
  static constexpr auto doc = "bernoulli_(p): fills with 1 with the probabilities in p, else 0.";
  static Var forward(const Var& input, const Var& p, Generator* generator) {
    check_bernoulli(input.dtype(), 0);
    admit("bernoulli_", input.get(), [&](const auto& f) { f(p.get()); });
    Var each = probabilities(p, input.sizes(), input.device());
    auto write = [&] { fill_bernoulli(input.get(), each, p.dtype(), generator); };
    return overwrite<BernoulliTensorNode>(input, "bernoulli_", write);
  }
};
RL_OP(BernoulliTensor_)

struct Bernoulli_ : InPlace {
  static constexpr auto signature =
      "bernoulli_(Tensor input, float p=0.5, *, Generator? generator=None)";
  static constexpr auto doc = "bernoulli_(p): fills with 1 with probability p, else 0.";
  static Var forward(const Var& input, double p, Generator* generator) {
    check_bernoulli(input.dtype(), p);
    auto write = [&] { fill_bernoulli(input.get(), p, generator); };
    return overwrite<BernoulliNode>(input, "bernoulli_", write);
  }
};
RL_OP(Bernoulli_)

struct Exponential_ : InPlace {
  static constexpr auto signature =
      "exponential_(Tensor input, float lambd=1, *, Generator? generator=None)";
  static constexpr auto doc = "exponential_(lambd): fills with exponential numbers of that rate.";
  static Var forward(const Var& input, double lambd, Generator* generator) {
    check(is_floating(input.dtype()),
          "Exponential distribution is a continuous probability "
          "distribution. dtype must be a floating point but you "
          "specified ",
          info(input.dtype()).tensor_name);
    check(lambd > 0, "exponential_ expects lambda > 0.0, but found lambda=", lambd);
    auto write = [&] {
      fill_rows(
          input.get(), generator,
          [=](const kernel::Table& on, DType d, void* out, int64_t n, const Stream& s) {
            on.fill_exponential(d, out, n, s.seed, s.offset, lambd);
          },
          [=](cpu::Mersenne& m, DType d, void* out, int64_t n) {
            cpu::fill_exponential(m, d, out, n, lambd);
          });
    };
    return overwrite<ExponentialNode>(input, "exponential_", write);
  }
};
RL_OP(Exponential_)

// One past the greatest integer that random_() gives: all that the type tells apart.
int64_t random_limit(DType d) {
  switch (d) {
    case DType::Bool: return 2;
    case DType::U16: return 65536;
    case DType::U32: return int64_t(1) << 32;
    case DType::U8: return 256;
    case DType::I8: return 128;
    case DType::I16: return 32768;
    case DType::I32: return int64_t(1) << 31;
    case DType::F16: return (1 << 11) + 1;
    case DType::BF16: return (1 << 8) + 1;
    case DType::F32: return (1 << 24) + 1;
    case DType::F64: return (int64_t(1) << 53) + 1;
    default: return INT64_MAX;
  }
}

// Without `to`: up to the last of them.
template <class Node>
Var random_between(const Var& input, int64_t low, std::optional<int64_t> to, Generator* generator) {
  if (is_complex(input.dtype())) fail_dtype("random_kernel_cpu", input.dtype());
  int64_t high = to.value_or(random_limit(input.dtype()));
  check_integers(input.dtype(), low, high);
  auto write = [&] {
    if (to) return fill_integers(input.get(), low, high, generator);
    uint64_t end = input.dtype() == DType::I64 ? uint64_t(1) << 63 : uint64_t(high);
    fill_range(input.get(), low, end - uint64_t(low), generator);
  };
  return overwrite<Node>(input, "random_", write);
}

struct RandomBetween_ : InPlace {
  static constexpr auto signature =
      "random_(Tensor input, int from, int? to, *, Generator? generator=None)";
  static constexpr auto doc = "random_(from, to): fills with integers from [from, to).";
  static Var forward(const Var& input, int64_t from, std::optional<int64_t> to,
                     Generator* generator) {
    return random_between<RandomBetweenNode>(input, from, to, generator);
  }
};
RL_OP(RandomBetween_)

struct RandomBelow_ : InPlace {
  static constexpr auto signature = "random_(Tensor input, int to, *, Generator? generator=None)";
  static constexpr auto doc = "random_(to): fills with integers from [0, to).";
  static Var forward(const Var& input, int64_t to, Generator* generator) {
    return random_between<RandomBelowNode>(input, 0, to, generator);
  }
};
RL_OP(RandomBelow_)

struct Random_ : InPlace {
  static constexpr auto signature = "random_(Tensor input, *, Generator? generator=None)";
  static constexpr auto doc = "random_(): fills with any integers that the type holds exactly.";
  static Var forward(const Var& input, Generator* generator) {
    if (!generator->mersenne || is_complex(input.dtype()))
      return random_between<RandomNode>(input, 0, std::nullopt, generator);
    auto write = [&] {
      auto fill = [](cpu::Mersenne& m, DType d, void* out, int64_t n) {
        cpu::fill_any_integers(m, d, out, n);
      };
      fill_torch(input.get(), generator, fill);
    };
    return overwrite<RandomNode>(input, "random_", write);
  }
};
RL_OP(Random_)

struct LogNormal_ : InPlace {
  static constexpr auto signature =
      "log_normal_(Tensor input, float mean=1, float std=2, *, Generator? generator=None)";
  static constexpr auto doc = "log_normal_(mean, std): fills with exp of normal numbers.";
  static Var forward(const Var& input, double mean, double std, Generator* generator) {
    if (!is_floating(input.dtype())) fail_dtype("log_normal_cpu", input.dtype());
    check(std > 0, "log_normal_ expects std > 0.0, but found std=", std);
    auto write = [&] {
      if (generator->mersenne)
        return fill_torch(input.get(), generator,
                          [=](cpu::Mersenne& m, DType d, void* out, int64_t n) {
                            cpu::fill_log_normal(m, d, out, n, mean, std);
                          });
      Var x = empty(input.sizes(), compute_type(input.dtype()), input.device());
      fill_normal(x.get(), mean, std, generator);
      ops::copy_data(input.get(), math::exp(x).get());
    };
    return overwrite<LogNormalNode>(input, "log_normal_", write);
  }
};
RL_OP(LogNormal_)

// The trial that first succeeds: exponential waiting times, cut into trials.
struct Geometric_ : InPlace {
  static constexpr auto signature =
      "geometric_(Tensor input, float p, *, Generator? generator=None)";
  static constexpr auto doc = "geometric_(p): fills with numbers of trials up to a success.";
  static Var forward(const Var& input, double p, Generator* generator) {
    if (input.dtype() == DType::Bool || is_complex(input.dtype()))
      fail_dtype("geometric_cpu", input.dtype());
    check(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
    auto write = [&] {
      if (generator->mersenne)
        return fill_torch(input.get(), generator,
                          [=](cpu::Mersenne& m, DType d, void* out, int64_t n) {
                            cpu::fill_geometric(m, d, out, n, p);
                          });
      Var x = empty(input.sizes(), DType::F64, input.device());
      fill_counter(x.get(), generator,
                   [=](const kernel::Table& on, DType d, void* out, int64_t n, const Stream& s) {
                     on.fill_exponential(d, out, n, s.seed, s.offset, -std::log1p(-p));
                   });
      ops::copy_data(input.get(), math::ceil(x).get());
    };
    return overwrite<GeometricNode>(input, "geometric_", write);
  }
};
RL_OP(Geometric_)

struct Cauchy_ : InPlace {
  static constexpr auto signature =
      "cauchy_(Tensor input, float median=0, float sigma=1, *, Generator? generator=None)";
  static constexpr auto doc = "cauchy_(median, sigma): fills with Cauchy numbers.";
  static Var forward(const Var& input, double median, double sigma, Generator* generator) {
    check(is_floating(input.dtype()),
          "Cauchy distribution is a continuous probability "
          "distribution. dtype must be a floating point but you "
          "specified ",
          info(input.dtype()).tensor_name);
    check(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
    auto write = [&] {
      if (generator->mersenne)
        return fill_torch(input.get(), generator,
                          [=](cpu::Mersenne& m, DType d, void* out, int64_t n) {
                            cpu::fill_cauchy(m, d, out, n, median, sigma);
                          });
      Var x = empty(input.sizes(), DType::F64, input.device());
      fill_uniform(x.get(), -M_PI / 2, M_PI / 2, generator);
      ops::copy_data(input.get(), (math::tan(x) * Var(sigma) + Var(median)).get());
    };
    return overwrite<CauchyNode>(input, "cauchy_", write);
  }
};
RL_OP(Cauchy_)

}  // namespace
}  // namespace rl
