// Complex numbers: parts, conjugates, polar form.
#include "call/broadcast.h"
#include "call/layout.h"
#include "call/op.h"
#include "call/write.h"

namespace rl {

using namespace math;

namespace {

struct ConjKernel : Hidden<ConjKernel, 1> {
  static constexpr auto name = "conj";
  static constexpr auto doc = "conj(x): the complex conjugate.";
  static constexpr Types types = Types::Complex;
  static constexpr bool differentiable = false;
  template <class V> static V value(V x) { return conj(x); }
};
RL_POINTWISE(ConjKernel)

// Conjugation is linear over the reals only, so it is no partial.
struct ConjComplex : Linear {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_conj(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "ConjBackward0";
  static constexpr auto doc = "_conj(x): the complex conjugate of a complex tensor.";
  static constexpr bool method = false;
  static Var forward(const Var& input) { return apply<ConjKernel>(input); }
  static void vjp(Back& b, const In&) { b[0] = ops::conj(b.g()); }
};
RL_OP(ConjComplex)

struct ConjPhysicalComplex : ConjComplex {
  static constexpr auto signature = "_conj_physical(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "ConjPhysicalBackward0";
};
RL_OP(ConjPhysicalComplex)

struct Conj : Composite {
  static constexpr auto signature = "conj(Tensor input)";
  static constexpr auto doc = "conj(x): the complex conjugate; a real tensor is returned as it is.";
  static constexpr bool out = false;
  static Var forward(const Var& input) { return ops::conj(input); }
};
RL_OP(Conj)

struct ConjPhysical : Composite {
  static constexpr auto signature = "conj_physical(Tensor input)";
  static constexpr auto doc =
      "conj_physical(x): the complex conjugate; a real tensor is returned as it is.";
  static constexpr bool inplace = true;
  static Var forward(const Var& input) {
    return is_complex(input.dtype()) ? call<ConjPhysicalComplex>(input) : input;
  }
};
RL_OP(ConjPhysical)

#define RL_RESOLVE(Type, function, text)                                \
  struct Type : Composite {                                             \
    static constexpr auto signature = #function "(Tensor input)";       \
    static constexpr auto doc = #function "(x): x itself, since " text; \
    static constexpr bool out = false;                                  \
    static Var forward(const Var& input) { return input; }              \
  };                                                                    \
  RL_OP(Type)
RL_RESOLVE(ResolveConj, resolve_conj, "conjugates are computed at once.")
RL_RESOLVE(ResolveNeg, resolve_neg, "negatives are computed at once.")
#undef RL_RESOLVE

#define RL_LAZY(Type, function)                                              \
  struct Type : Composite {                                                  \
    static constexpr auto signature = #function "(Tensor input)";            \
    static constexpr auto doc = #function "(x): False, nothing is put off."; \
    static constexpr bool out = false;                                       \
    static bool forward(const Var&) { return false; }                        \
  };                                                                         \
  RL_OP(Type)
RL_LAZY(IsConj, is_conj)
RL_LAZY(IsNeg, is_neg)
#undef RL_LAZY

struct IsComplex : Composite {
  static constexpr auto signature = "is_complex(Tensor input)";
  static constexpr auto doc = "is_complex(x): whether the dtype of x is complex.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static bool forward(const Var& input) { return is_complex(input.dtype()); }
};
RL_OP(IsComplex)

struct Real : Composite {
  static constexpr auto signature = "real(Tensor input)";
  static constexpr auto doc = "real(x): the real part, as a view; a real tensor itself.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input) { return ops::real(input); }
};
RL_OP(Real)

struct Imag : Composite {
  static constexpr auto signature = "imag(Tensor input)";
  static constexpr auto doc = "imag(x): the imaginary part of a complex tensor, as a view.";
  static constexpr bool method = false;
  static constexpr bool out = false;
  static Var forward(const Var& input) { return ops::imag(input); }
};
RL_OP(Imag)

void check_parts(const Var& a, const Var& b) {
  auto fits = [](const Var& v) {
    return v.dtype() == DType::F16 || v.dtype() == DType::F32 || v.dtype() == DType::F64;
  };
  check(fits(a) && fits(b), "Expected both inputs to be Half, Float or Double tensors but got ",
        info(a.dtype()).tensor_name, " and ", info(b.dtype()).tensor_name);
  check(a.dtype() == b.dtype(), "Expected object of scalar type ", info(a.dtype()).tensor_name,
        " but got scalar type ", info(b.dtype()).tensor_name, " for second argument");
}

struct Complex : Linear {
  static constexpr auto signature = "complex(Tensor real, Tensor imag)";
  static constexpr Batching batching = Batching::Broadcast;
  static constexpr auto doc = "complex(a, b): the complex tensor a + b * 1j.";
  static constexpr bool method = false;
  static Var forward(const Var& real, const Var& imag) {
    check_parts(real, imag);
    const Tensor* parts[] = {real.get(), imag.get()};
    Ints sizes = broadcast(real.sizes(), imag.sizes());
    Var z = empty_pointwise(parts, 2, sizes, complex_of(real.dtype()));
    ops::copy_data(ops::real(z).get(), real.get());
    ops::copy_data(ops::imag(z).get(), imag.get());
    return z;
  }
  static void vjp(Back& b, const In&, const In&) {
    if (b.wants(0)) b[0] = ops::real(b.g());
    if (b.wants(1)) b[1] = ops::imag(b.g());
  }
};
RL_OP(Complex)

struct Polar : General {
  static constexpr auto signature = "polar(Tensor abs, Tensor angle)";
  static constexpr Batching batching = Batching::Broadcast;
  static constexpr Autocast autocast = Autocast::Full;
  static constexpr auto doc = "polar(r, phi): the complex tensor r * exp(1j * phi).";
  static constexpr auto saves = "angle|abs angle";
  static constexpr bool spares = true;
  static constexpr bool method = false;
  static Var forward(const Var& abs, const Var& angle) {
    check_parts(abs, angle);
    return call<Complex>(abs * cos(angle), abs * sin(angle));
  }
  static void vjp(Back& b, const In& abs, const In& angle) {
    Var c = cos(*angle), s = sin(*angle), re = ops::real(b.g()), im = ops::imag(b.g());
    if (b.wants(0)) b[0] = re * c + im * s;
    if (b.wants(1)) b[1] = *abs * (im * c - re * s);
  }
  static void jvp(Push& p, const Var& abs, const Var& angle) {
    Var c = cos(angle), s = sin(angle);
    if (p.t(0)) p.add(call<Complex>(p.t(0) * c, p.t(0) * s));
    if (p.t(1)) p.add(call<Complex>(p.t(1) * abs * -s, p.t(1) * abs * c));
  }
};
RL_OP(Polar)

struct AngleReal : Hidden<AngleReal, 1> {
  static constexpr auto name = "angle";
  static constexpr auto doc = "angle(x): 0 for positive numbers, pi for negative ones.";
  static constexpr Result result = Result::Float;
  static constexpr bool selects = true;
  static constexpr Save saves[] = {Save::None};
  template <class V> static V value(V x) {
    return where(isnan(x), x, where(x < V(0), V(M_PI), V(0)));
  }
  template <class V> static V partial(V, V) { return V(0); }
};
RL_POINTWISE(AngleReal)

struct AngleComplex : General {
  static constexpr auto signature = "_angle(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "AngleBackward0";
  static constexpr auto doc = "_angle(x): the argument of complex numbers, in (-pi, pi].";
  static constexpr auto saves = "input";
  static constexpr bool method = false;
  static Var forward(const Var& input) {
    return ops::contiguous(atan2(ops::imag(input), ops::real(input)));
  }
  static void vjp(Back& b, const In& input) {
    Var re = ops::real(*input), im = ops::imag(*input), scaled = b.g() / square(re, im);
    b[0] = call<Complex>(-im * scaled, re * scaled);
  }
  static void jvp(Push& p, const Var& input) {
    Var re = ops::real(input), im = ops::imag(input);
    p[0] = (re * ops::imag(p.t(0)) - im * ops::real(p.t(0))) / square(re, im);
  }
  // |x|^2, 1 at 0.
  static Var square(const Var& re, const Var& im) {
    Var sum = re * re + im * im;
    return where(sum == Var(0), Var(1), sum);
  }
};
RL_OP(AngleComplex)

struct Angle : Composite {
  static constexpr auto signature = "angle(Tensor input)";
  static constexpr auto doc = "angle(x): the argument of x as a complex number, in (-pi, pi].";
  static Var forward(const Var& input) {
    return is_complex(input.dtype()) ? call<AngleComplex>(input) : apply<AngleReal>(input);
  }
};
RL_OP(Angle)

struct SgnKernel : Hidden<SgnKernel, 1> {
  static constexpr auto name = "sgn_complex";
  static constexpr auto doc = "sgn_complex(x): x / |x|, 0 at 0.";
  static constexpr Types types = Types::Complex;
  static constexpr bool differentiable = false;
  template <class V> static V value(V x) { return sign(x); }
};
RL_POINTWISE(SgnKernel)

struct SgnComplex : General {
  static constexpr Stored stored = Stored::Moved;
  static constexpr auto signature = "_sgn(Tensor input)";
  static constexpr Batching batching = Batching::Shift;
  static constexpr auto grad_name = "SgnBackward0";
  static constexpr auto doc = "_sgn(x): x / |x| for complex numbers, 0 at 0.";
  static constexpr auto saves = "input out";
  static constexpr bool method = false;
  static Var forward(const Var& input) { return apply<SgnKernel>(input); }
  static void vjp(Back& b, const In& input) { b[0] = turn(b.g(), *input, b.out()); }
  static void jvp(Push& p, const Var& input) { p[0] = turn(p.t(0), input, p.out()); }
  // What is left of g without its part along x, over |x|: the derivative is its own adjoint.
  static Var turn(const Var& g, const Var& x, const Var& s) {
    Var size = abs(x), at_zero = size == Var(0);
    Var across = g - s * ops::real(ops::conj(s) * g);
    return where(at_zero, Var(0), across) / where(at_zero, Var(1), size);
  }
};
RL_OP(SgnComplex)

struct SgnAny : Composite {
  static constexpr auto signature = "sgn(Tensor input)";
  static constexpr auto doc = "sgn(x): x / |x|, 0 at 0: the sign of real numbers.";
  static constexpr bool inplace = true;
  static Var forward(const Var& input) { return sign(input); }
  static void into(Tensor* into, bool inplace, const Var& input) {
    if (!is_complex(input.dtype())) {
      run_pointwise(find_pointwise("sgn"), &input, nullptr, into, inplace);
    } else if (!inplace) {
      write_out(into, sign(input), "sgn");
    } else {
      replace_inplace(into, "sgn_", [](const Var& x) { return sign(x); });
    }
  }
};
RL_OP(SgnAny)

// Of a number alone: a number, in double precision.
template <class Op>
Var of_complex(const Var& x) {
  if (!x->wrapped_number) return call<Op>(x);
  Var result = call<Op>(alias(x.get()));
  result->wrapped_number = true;
  return result;
}

}  // namespace

namespace math {

Var conj(const Var& x) { return ops::conj(x); }
Var is_nonnegative(const Var& x) { return ops::real(x) >= Var(0); }
Var sign(const Var& x) {
  return is_complex(x.dtype()) ? of_complex<SgnComplex>(x) : call_pointwise("sgn", {x});
}

}  // namespace math

namespace ops {

Var conj(const Var& a) { return is_complex(a.dtype()) ? of_complex<ConjComplex>(a) : a; }
Var real(const Var& a) { return is_complex(a.dtype()) ? select(view_as_real(a), -1, 0) : a; }
Var imag(const Var& a) {
  check(is_complex(a.dtype()), "imag is not implemented for tensors with non-complex dtypes.");
  return select(view_as_real(a), -1, 1);
}

}  // namespace ops
}  // namespace rl
