// Tensors out of nothing.
#include "ops/shape/creation.h"

#include "call/memory_format.h"
#include "kernels/kernels.h"
#include "ops/index/index.h"

namespace rl {

namespace {

// The type of a filled tensor follows the value.
DType of_value(const std::optional<DType>& dtype, const Var& value) {
  if (dtype) return *dtype;
  return value.dtype() == DType::U64  ? DType::I64
         : is_integral(value.dtype()) ? value.dtype()
         : is_complex(value.dtype())  ? complex_of(default_dtype())
                                      : default_dtype();
}

Var filled(Var v, const Var& value) {
  check(value.numel() == 1, "full: the fill value must be a single number");
  if (value.device() == kHost || is_stored(v.dtype()) || value.dtype() == DType::U64)
    check_fill(value, v.dtype());
  Var scalar = ops::to(alias(value.get()), v.dtype());
  Ints zero(v.dim());
  Var spread = alias(scalar.get(), v.sizes(), zero, scalar->offset);
  ops::copy_data(v.get(), spread.get());
  return v;
}

struct Empty : Creation_ {
  static constexpr auto signature =
      "empty(size size, *, " RL_OPTIONS ", object? memory_format=None)";
  static constexpr auto doc = "empty(*size): a tensor with whatever its memory holds.";
  static Var forward(const Ints& size, std::optional<DType> dtype, PyObject*,
                     std::optional<Device> device, bool requires_grad, PyObject*,
                     PyObject* memory_format) {
    MemoryFormat format = memory_format_argument(memory_format, MemoryFormat::Contiguous, "empty");
    if (format == MemoryFormat::Contiguous)
      return finish(empty(size, chosen(dtype), chosen(device)), requires_grad);
    Ints strides = format_strides(format, size, "empty");
    return finish(empty_strided(size, strides, chosen(dtype), chosen(device)), requires_grad);
  }
};
RL_OP(Empty)

struct EmptyStrided : Creation_ {
  static constexpr auto signature = "empty_strided(int[] size, int[] stride, *, " RL_OPTIONS ")";
  static constexpr auto doc = "empty_strided(size, stride): an uninitialised tensor with strides.";
  static Var forward(const Ints& size, const Ints& stride, std::optional<DType> dtype, PyObject*,
                     std::optional<Device> device, bool requires_grad, PyObject*) {
    return finish(empty_strided(size, stride, chosen(dtype), chosen(device)), requires_grad);
  }
};
RL_OP(EmptyStrided)

struct EmptyPermuted : Creation_ {
  static constexpr auto signature =
      "empty_permuted(int[] size, int[] physical_layout, *, " RL_OPTIONS ")";
  static constexpr auto doc =
      "empty_permuted(size, physical_layout): an uninitialised tensor whose dimensions lie in "
      "memory in this order, the outermost first.";
  static Var forward(const Ints& size, const Ints& physical_layout, std::optional<DType> dtype,
                     PyObject*, std::optional<Device> device, bool requires_grad, PyObject*) {
    int n = size.size();
    check(physical_layout.size() == n,
          "empty_permuted: Number of dimensions in size does not match the length of the "
          "physical_layout; i.e. len(size) = ",
          n, " is not equal to len(physical_layout) = ", physical_layout.size());
    Ints strides(n, -1);
    int64_t step = 1;
    for (int i = n - 1; i >= 0; i--) {
      int64_t d = physical_layout[i];
      check(d >= 0 && d < n,
            "empty_permuted: Dimension out of range (expected to be between 0 and ", n - 1,
            ", but got ", d, " at index ", i, ")");
      check(strides[int(d)] < 0,
            "empty_permuted: Duplicate dim not allowed: physical_layout=", physical_layout);
      strides[int(d)] = step;
      step *= std::max<int64_t>(size[int(d)], 1);
    }
    return finish(empty_strided(size, strides, chosen(dtype), chosen(device)), requires_grad);
  }
};
RL_OP(EmptyPermuted)

#define RL_CONSTANT(Type, kind, number)                                                         \
  struct Type : Creation_ {                                                                     \
    static constexpr auto signature = kind "(size size, *, " RL_OPTIONS ")";                    \
    static constexpr auto doc = kind "(*size): a tensor of " #number "s.";                      \
    static Var forward(const Ints& size, std::optional<DType> dtype, PyObject*,                 \
                       std::optional<Device> device, bool requires_grad, PyObject*) {           \
      return finish(number == 0 ? ops::zeros(size, chosen(dtype), chosen(device))               \
                                : ops::full(size, number, chosen(dtype), chosen(device)),       \
                    requires_grad);                                                             \
    }                                                                                           \
  };                                                                                            \
  RL_OP(Type)                                                                                   \
  struct Type##Like : Creation_ {                                                               \
    static constexpr auto signature =                                                           \
        kind "_like(Tensor input, *, " RL_OPTIONS ", object? memory_format=None)";              \
    static constexpr auto doc = kind "_like(x): " #number "s with the shape and type of x.";    \
    static Var forward(const Var& input, std::optional<DType> dtype, PyObject*,                 \
                       std::optional<Device> device, bool requires_grad, PyObject*,             \
                       PyObject* memory_format) {                                               \
      Var v = empty_like(input, dtype.value_or(input.dtype()), device.value_or(input.device()), \
                         memory_format, kind "_like");                                          \
      ops::fill_data(v.get(), number);                                                          \
      return finish(v, requires_grad);                                                          \
    }                                                                                           \
  };                                                                                            \
  RL_OP(Type##Like)
RL_CONSTANT(Zeros, "zeros", 0)
RL_CONSTANT(Ones, "ones", 1)

struct EmptyLike : Creation_ {
  static constexpr auto signature =
      "empty_like(Tensor input, *, " RL_OPTIONS ", object? memory_format=None)";
  static constexpr auto doc = "empty_like(x): uninitialised, with the shape and type of x.";
  static Var forward(const Var& input, std::optional<DType> dtype, PyObject*,
                     std::optional<Device> device, bool requires_grad, PyObject*,
                     PyObject* memory_format) {
    return finish(empty_like(input, dtype.value_or(input.dtype()), device.value_or(input.device()),
                             memory_format, "empty_like"),
                  requires_grad);
  }
  static Var batched(const HiddenDims& hidden, const Var& input, std::optional<DType> dtype,
                     PyObject*, std::optional<Device> device, bool requires_grad, PyObject*,
                     PyObject* memory_format) {
    DType type = dtype.value_or(input.dtype());
    return finish(empty_like(hidden, input, type, device.value_or(input.device()), memory_format,
                             "empty_like"),
                  requires_grad);
  }
};
RL_OP(EmptyLike)

struct Full : Creation_ {
  static constexpr auto signature = "full(int[] size, Tensor|Number fill_value, *, " RL_OPTIONS ")";
  static constexpr auto doc = "full(size, value): a tensor with every element equal to value.";
  static Var forward(const Ints& size, const Var& fill_value, std::optional<DType> dtype, PyObject*,
                     std::optional<Device> device, bool requires_grad, PyObject*) {
    return finish(filled(empty(size, of_value(dtype, fill_value), chosen(device)), fill_value),
                  requires_grad);
  }
};
RL_OP(Full)

struct FullLike : Creation_ {
  static constexpr auto signature =
      "full_like(Tensor input, Tensor|Number fill_value, *, " RL_OPTIONS
      ", object? memory_format=None)";
  static constexpr auto doc = "full_like(x, value): every element equal to value, shaped as x.";
  static Var forward(const Var& input, const Var& fill_value, std::optional<DType> dtype, PyObject*,
                     std::optional<Device> device, bool requires_grad, PyObject*,
                     PyObject* memory_format) {
    Var v = empty_like(input, dtype.value_or(input.dtype()), device.value_or(input.device()),
                       memory_format, "full_like");
    return finish(filled(v, fill_value), requires_grad);
  }
};
RL_OP(FullLike)

#define RL_NEW(Type, kind, value)                                                                 \
  struct Type : NonDifferentiable {                                                               \
    static constexpr auto signature = "new_" kind "(Tensor input, size size, *, " RL_OPTIONS ")"; \
    static constexpr auto doc = "new_" kind "(*size): a new tensor with x's dtype.";              \
    static constexpr Family family = Family::Creation;                                            \
    static constexpr Stored stored = Stored::Moved;                                               \
    static constexpr bool function = false;                                                       \
    static constexpr bool out = false;                                                            \
    static Var forward(const Var& input, const Ints& size, std::optional<DType> dtype, PyObject*, \
                       std::optional<Device> device, bool requires_grad, PyObject*) {             \
      Var v = empty(size, dtype.value_or(input.dtype()), device.value_or(input.device()));        \
      if (value >= 0) ops::fill_data(v.get(), value);                                             \
      return finish(v, requires_grad);                                                            \
    }                                                                                             \
  };                                                                                              \
  RL_OP(Type)
RL_NEW(NewZeros, "zeros", 0)
RL_NEW(NewOnes, "ones", 1)
RL_NEW(NewEmpty, "empty", -1)

struct NewFull : NonDifferentiable {
  static constexpr auto signature =
      "new_full(Tensor input, int[] size, Tensor|Number fill_value, *, " RL_OPTIONS ")";
  static constexpr auto doc = "new_full(size, value): a filled tensor with x's dtype.";
  static constexpr Family family = Family::Creation;
  static constexpr Stored stored = Stored::Moved;
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& size, const Var& fill_value,
                     std::optional<DType> dtype, PyObject*, std::optional<Device> device,
                     bool requires_grad, PyObject*) {
    return finish(
        filled(empty(size, dtype.value_or(input.dtype()), device.value_or(input.device())),
               fill_value),
        requires_grad);
  }
};
RL_OP(NewFull)

struct NewEmptyStrided : NonDifferentiable {
  static constexpr auto signature =
      "new_empty_strided(Tensor input, int[] size, int[] stride, *, " RL_OPTIONS ")";
  static constexpr auto doc =
      "new_empty_strided(size, stride): an uninitialised tensor with strides and x's dtype.";
  static constexpr Family family = Family::Creation;
  static constexpr Stored stored = Stored::Moved;
  static constexpr bool function = false;
  static constexpr bool out = false;
  static Var forward(const Var& input, const Ints& size, const Ints& stride,
                     std::optional<DType> dtype, PyObject*, std::optional<Device> device,
                     bool requires_grad, PyObject*) {
    return finish(
        empty_strided(size, stride, dtype.value_or(input.dtype()), device.value_or(input.device())),
        requires_grad);
  }
};
RL_OP(NewEmptyStrided)

// Whether the device makes evenly spaced numbers of the type itself.
bool ramps(DType dtype, Device device) { return device.type == Device::CUDA && !is_stored(dtype); }

// Writes start + i * step for i in [0, n) in the tensor's own type.
void write_range(const Var& v, const Var& start, const Var& step) {
  int64_t n = v.numel();
  if (!has_data(v.get())) return;
  if (is_integral(v.dtype())) {
    int64_t a = ops::whole_number(start);
    int64_t s = ops::whole_number(step);
    if (ramps(v.dtype(), v.device()))
      return on(v).ramp(v.dtype(), v->data(), n, {true, a, s, 0, 0, 0, 0});
    Var wide = empty({n}, DType::I64, kHost);
    int64_t* x = wide->host<int64_t>();
    for (int64_t i = 0; i < n; i++) x[i] = int64_t(uint64_t(a) + uint64_t(i) * uint64_t(s));
    ops::copy_data(v.get(), wide.get());
    return;
  }
  double a = ops::number(start);
  double s = ops::number(step);
  if (ramps(v.dtype(), v.device()))
    return on(v).ramp(v.dtype(), v->data(), n, {false, 0, 0, a, s, 0, n});
  Var wide = empty({n}, DType::F64, kHost);
  double* x = wide->host<double>();
  for (int64_t i = 0; i < n; i++) x[i] = a + double(i) * s;
  ops::copy_data(v.get(), wide.get());
}

// A bound of arange is a number, or a tensor without dimensions that has no gradient to lose.
void check_bound(const Var& v, const char* name) {
  bool grad = v->requires_grad || v->grad_fn;
  if (v->dim() == 0 && !grad) return;
  fail_as(PyExc_TypeError, "arange(): argument '", name,
          "' must be Number, not Tensor: got one of ", v->dim(), " dimensions",
          grad ? " that requires grad" : "", "; give its item()");
}

Var arange(const Var& start, const Var& end, const Var& step, std::optional<DType> dtype,
           std::optional<Device> device, bool requires_grad) {
  check_bound(start, "start");
  check_bound(end, "end");
  check_bound(step, "step");
  bool integral =
      is_integral(start.dtype()) && is_integral(end.dtype()) && is_integral(step.dtype());
  DType result = dtype ? *dtype : integral ? DType::I64 : default_dtype();
  if (result == DType::I64 && !integral) {
    auto cut = [](const Var& v) { return ops::to(v, DType::I64, kHost); };
    return arange(cut(start), cut(end), cut(step), dtype, device, requires_grad);
  }
  double a = ops::number(start);
  double b = ops::number(end);
  double s = ops::number(step);
  check(s != 0, "arange: step must be nonzero");
  check(std::isfinite(a) && std::isfinite(b), "arange: unsupported range: ", a, " -> ", b);
  check((s > 0 && b >= a) || (s < 0 && b <= a),
        "arange: upper bound and lower bound inconsistent with step sign: ", a, " -> ", b, " by ",
        s);
  double count = std::ceil((b - a) / s);
  check(count >= 0 && count < 1e15, "arange: invalid size, possible overflow: ", count);
  int64_t n = int64_t(count);
  if (integral) {
    int64_t x = ops::whole_number(start);
    int64_t y = ops::whole_number(end);
    int64_t z = ops::whole_number(step);
    n = (y - x + z - (z > 0 ? 1 : -1)) / z;
  }
  Var v = empty({n}, result, chosen(device));
  write_range(v, start, step);
  return finish(v, requires_grad);
}

// clang-format off
#define RL_ARANGE(Type, parameters, ...)                                                       \
  struct Type : Creation_ {                                                                    \
    static constexpr auto signature = "arange(" parameters ", *, " RL_OPTIONS ")";             \
    static constexpr auto doc = "arange(start, end, step): start, start + step, ... below end."; \
    static Var forward(__VA_ARGS__, std::optional<DType> dtype, PyObject*, std::optional<Device> device, \
                       bool requires_grad, PyObject*) {
RL_ARANGE(ArangeEnd, "Tensor|Number end", const Var& end)
      return arange(ops::to(Var(0), DType::I64), end, ops::to(Var(1), DType::I64), dtype,
                    device, requires_grad);
    }
  };
RL_OP(ArangeEnd)
RL_ARANGE(ArangeRange, "Tensor|Number start, Tensor|Number end, Tensor|Number step=1",
          const Var& start, const Var& end,
          const Var& step)
      return arange(start, end, step, dtype, device, requires_grad);
    }
  };
RL_OP(ArangeRange)
// clang-format on

struct Linspace : Creation_ {
  static constexpr auto signature =
      "linspace(Tensor|Number start, Tensor|Number end, int steps, *, " RL_OPTIONS ")";
  static constexpr auto doc = "linspace(start, end, steps): evenly spaced, both ends included.";
  static Var forward(const Var& start, const Var& end, int64_t steps, std::optional<DType> dtype,
                     PyObject*, std::optional<Device> device, bool requires_grad, PyObject*) {
    check(steps >= 0, "number of steps must be non-negative, got ", steps);
    check(start->dim() == 0 && end->dim() == 0,
          "linspace only supports 0-dimensional start and end tensors, but got start with ",
          start->dim(), " dimension(s) and end with ", end->dim(), " dimension(s).");
    if (without_data(chosen(device)))
      return finish(empty({steps}, chosen(dtype), chosen(device)), requires_grad);
    double a = ops::number(start);
    double b = ops::number(end);
    if (is_integral(chosen(dtype))) {
      a = std::trunc(a);
      b = std::trunc(b);
    }
    double step = steps > 1 ? (b - a) / double(steps - 1) : 0;
    if (ramps(chosen(dtype), chosen(device))) {
      Var v = empty({steps}, chosen(dtype), chosen(device));
      int64_t half = steps == 1 ? 1 : steps / 2;
      on(v).ramp(v.dtype(), v->data(), steps, {false, 0, 0, a, step, b, half});
      return finish(v, requires_grad);
    }
    Var wide = empty({steps}, DType::F64, kHost);
    double* x = wide->host<double>();
    for (int64_t i = 0; i < steps; i++)
      x[i] = i < steps / 2 || steps == 1 ? a + step * double(i) : b - step * double(steps - 1 - i);
    return finish(ops::to(wide, chosen(dtype), chosen(device)), requires_grad);
  }
};
RL_OP(Linspace)

struct Logspace : Creation_ {
  static constexpr auto signature =
      "logspace(Number start, Number end, int steps, float base=10.0, *, " RL_OPTIONS ")";
  static constexpr auto doc = "logspace(start, end, steps, base): base to evenly spaced powers.";
  static Var forward(const Var& start, const Var& end, int64_t steps, double base,
                     std::optional<DType> dtype, PyObject*, std::optional<Device> device,
                     bool requires_grad, PyObject*) {
    check(steps >= 0, "number of steps must be non-negative, got ", steps);
    if (without_data(chosen(device)))
      return finish(empty({steps}, chosen(dtype), chosen(device)), requires_grad);
    bool whole = is_integral(chosen(dtype));
    auto bound = [&](const Var& v) { return whole ? Var(std::trunc(ops::number(v))) : v; };
    Var wide = Linspace::forward(bound(start), bound(end), steps, DType::F64, nullptr, kHost, false,
                                 nullptr);
    double* x = wide->host<double>();
    for (int64_t i = 0; i < steps; i++) x[i] = std::pow(base, x[i]);
    return finish(ops::to(wide, chosen(dtype), chosen(device)), requires_grad);
  }
};
RL_OP(Logspace)

Var eye(int64_t n, int64_t m, DType dtype, Device device) {
  check(n >= 0, "n must be greater or equal to 0, got ", n);
  check(m >= 0, "m must be greater or equal to 0, got ", m);
  Var v = ops::zeros({n, m}, dtype, device);
  Var diagonal = alias(v.get(), Ints{std::min(n, m)}, Ints{m + 1}, 0);
  ops::fill_data(diagonal.get(), 1);
  return v;
}

struct Eye : Creation_ {
  static constexpr auto signature = "eye(int n, int? m=None, *, " RL_OPTIONS ")";
  static constexpr auto doc = "eye(n, m): ones on the diagonal of an n by m matrix of zeros.";
  static Var forward(int64_t n, std::optional<int64_t> m, std::optional<DType> dtype, PyObject*,
                     std::optional<Device> device, bool requires_grad, PyObject*) {
    return finish(eye(n, m.value_or(n), chosen(dtype), chosen(device)), requires_grad);
  }
};
RL_OP(Eye)

}  // namespace
}  // namespace rl
