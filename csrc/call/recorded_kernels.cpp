// The kernels of the CPU as a recording calls them: each notes its call, then runs.
#include "call/recording.h"

#include <cstring>

#include "call/pointwise.h"
#include "kernels/cpu/kernels.h"
#include "kernels/linalg.h"

namespace rl {

namespace {

using Visit = std::function<void(const void*, bool)>;

// ---- arguments: what is kept of one, whatever its type

struct Argument {
  enum Kind : uint8_t { Integer, Real, Type, Memory, Object } kind;
  bool written;  // the memory, perhaps
  union {
    int64_t integer;
    double real;
    const void* data;  // of an object: the memory that it names, or null
  };
  std::shared_ptr<const void> object;
};

// The same while the call lasts: an object where it lies.
struct Packed {
  Argument::Kind kind;
  bool written;
  union {
    int64_t integer;
    double real;
    const void* data;
  };
  const void* object;
  std::shared_ptr<const void> (*copy)(const void* object);
};

template <class T>
std::shared_ptr<const void> copy_object(const void* object) {
  return std::make_shared<const T>(*static_cast<const T*>(object));
}

template <class T>
Packed packed(const T& x) {
  Packed a{};
  if constexpr (std::is_convertible_v<T, const void*>) {
    a.kind = Argument::Memory;
    a.written = !std::is_const_v<std::remove_pointer_t<T>>;
    a.data = x;
  } else if constexpr (std::is_same_v<T, DType>) {
    a.kind = Argument::Type;
    a.integer = int64_t(x);
  } else if constexpr (std::is_floating_point_v<T>) {
    a.kind = Argument::Real;
    a.real = x;
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    a.kind = Argument::Integer;
    a.integer = int64_t(x);
  } else {
    a.kind = Argument::Object;
    a.data = nullptr;
    if constexpr (requires { x.data; }) {
      a.data = x.data;
      a.written = !std::is_const_v<std::remove_pointer_t<decltype(x.data)>>;
    }
    a.object = &x;
    a.copy = copy_object<T>;
  }
  return a;
}

template <class T>
decltype(auto) unpacked(const Argument& a) {
  using D = std::decay_t<T>;
  if constexpr (std::is_convertible_v<D, const void*>)
    return static_cast<D>(const_cast<void*>(a.data));
  else if constexpr (std::is_floating_point_v<D>) return D(a.real);
  else if constexpr (std::is_integral_v<D> || std::is_enum_v<D>) return D(a.integer);
  else return *static_cast<const D*>(a.object.get());
}

std::string shown(const Argument& a, const Places& places) {
  switch (a.kind) {
    case Argument::Integer: return std::to_string(a.integer);
    case Argument::Real: return concat(a.real);
    case Argument::Type: return name(DType(a.integer));
    case Argument::Object: return a.data ? places.name(a.data) : "...";
    default: return places.name(a.data);
  }
}
std::string shown(const std::vector<int64_t>& x) { return concat(Ints(x.data(), int(x.size()))); }

// A kernel whose arguments are numbers, shapes and memory of tensors.
struct KernelAction : Action {
  const char* label;
  void (*call)(const Argument*);
  std::vector<Argument> arguments;

  KernelAction(const char* label, void (*call)(const Argument*), std::vector<Argument> arguments)
      : label(label), call(call), arguments(std::move(arguments)) {}
  void run() override { call(arguments.data()); }
  void each_pointer(const Visit& visit) const override {
    for (const Argument& a : arguments)
      if (a.kind == Argument::Memory || a.kind == Argument::Object) visit(a.data, a.written);
  }
  std::string text(const Places& places) const override {
    std::string all;
    for (const Argument& a : arguments) all += (all.empty() ? "" : ", ") + shown(a, places);
    return concat(label, "(", all, ")");
  }
};

void note(const char* label, void (*call)(const Argument*), const Packed* packed, size_t count) {
  std::vector<Argument> arguments(count);
  for (size_t i = 0; i < count; i++) {
    const Packed& from = packed[i];
    Argument& to = arguments[i];
    to.kind = from.kind;
    to.written = from.written;
    to.integer = from.integer;
    if (from.object) to.object = from.copy(from.object);
  }
  the_recording()->add(std::make_unique<KernelAction>(label, call, std::move(arguments)));
}

[[noreturn]] void fail_again(const char* kernel, kernel::Outside bad) {
  fail_as(PyExc_IndexError, "replay: ", kernel, " found ", bad.value, " at position ", bad.at,
          ", which is out of range");
}
[[noreturn]] void fail_again(const char* kernel) { fail("replay: ", kernel, " failed"); }

// Kernels that are told shapes by arrays of the host's: closures with copies of those.
struct Closure : Action {
  std::string label;
  std::function<void()> call;
  std::vector<std::pair<const void*, bool>> pointers;
  std::vector<int64_t> sizes;
  std::vector<double> params;  // in the order of the formula's, or of the kernel's
  std::vector<DType> types;    // what is read, then what is written

  void run() override { call(); }
  void each_pointer(const Visit& visit) const override {
    for (auto [data, written] : pointers) visit(data, written);
  }
  std::string text(const Places& places) const override {
    std::string all;
    for (auto [data, written] : pointers)
      if (data) all += (all.empty() ? "" : ", ") + places.name(data);
    if (!sizes.empty()) all += ", " + shown(sizes);
    for (double x : params) all += concat(", ", x);
    for (size_t i = 0; i < types.size(); i++) all += concat(i ? " -> " : ", ", name(types[i]));
    return concat(label, "(", all, ")");
  }
};

std::vector<int64_t> copied(const int64_t* values, int n) { return {values, values + n}; }

template <class Label>
std::unique_ptr<Closure> closure(std::vector<std::pair<const void*, bool>> pointers,
                                 std::function<void()> call, std::vector<int64_t> sizes = {},
                                 std::vector<DType> types = {}) {
  auto made = std::make_unique<Closure>();
  made->label = Label::text;
  made->pointers = std::move(pointers);
  made->call = std::move(call);
  made->sizes = std::move(sizes);
  made->types = std::move(types);
  return made;
}

// Up to 16 bytes of the host's that stand for a number.
struct Bits {
  alignas(16) char bytes[16] = {};
  Bits(const void* from, int64_t size) { std::memcpy(bytes, from, size_t(size)); }
};

// ---- the kernels, noted

const kernel::Table& unrecorded(const kernel::Table*) { return cpu_table; }
const kernel::LinalgTable& unrecorded(const kernel::LinalgTable*) { return cpu_linalg; }

template <auto Member, class Label>
struct Recorded;
template <class Table, class R, class... A, R (*Table::*Member)(A...), class Label>
struct Recorded<Member, Label> {
  RL_COLD static R unnoted(A... a) {
    return (unrecorded(static_cast<const Table*>(nullptr)).*Member)(a...);
  }
  template <size_t... I>
  RL_COLD static void again(const Argument* a, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) unnoted(unpacked<A>(a[I])...);
    else if constexpr (std::is_same_v<R, bool>) {
      if (unnoted(unpacked<A>(a[I])...)) fail_again(Label::text);
    } else {
      if (R bad = unnoted(unpacked<A>(a[I])...)) fail_again(Label::text, bad);
    }
  }
  RL_COLD static R run(A... a) {
    constexpr bool can_fail = std::is_same_v<R, kernel::Outside> || std::is_same_v<R, bool>;
    if constexpr (std::is_void_v<R> || can_fail)
      if (recording) {
        const Packed all[] = {packed(a)...};
        note(
            Label::text,
            [](const Argument* kept) RL_COLD { again(kept, std::index_sequence_for<A...>()); }, all,
            sizeof...(A));
      }
    return unnoted(a...);
  }
  RL_COLD static R refused(A... a) {
    if (recording) refuse_recording(Label::text);
    return unnoted(a...);
  }
};

#define KERNEL(Result, name, parameters) \
  struct name##_label {                  \
    static constexpr auto text = #name;  \
  };
#include "kernels/linalg.def"
#include "kernels/table.def"
#undef KERNEL

void note_copy_strided(DType to, void* out, const int64_t* out_strides, DType from, const void* in,
                       const int64_t* in_strides, const int64_t* sizes, int ndim) {
  if (recording) {
    auto a = copied(out_strides, ndim), b = copied(in_strides, ndim), s = copied(sizes, ndim);
    if (the_recording()->knows(in)) {
      the_recording()->add(closure<copy_strided_label>(
          {{out, true}, {in, false}},
          [=] { cpu::copy_strided(to, out, a.data(), from, in, b.data(), s.data(), ndim); }, s,
          {from, to}));
    } else {  // one number of the host's, everywhere
      Bits value(in, itemsize(from));
      the_recording()->add(closure<copy_strided_label>(
          {{out, true}},
          [=] {
            cpu::copy_strided(to, out, a.data(), from, value.bytes, b.data(), s.data(), ndim);
          },
          s));
    }
  }
  cpu::copy_strided(to, out, out_strides, from, in, in_strides, sizes, ndim);
}

void note_fill(DType d, void* out, int64_t stride, int64_t n, const void* value) {
  if (recording) {
    Bits bits(value, itemsize(d));
    the_recording()->add(
        closure<fill_label>({{out, true}}, [=] { cpu::fill(d, out, stride, n, bits.bytes); }, {n}));
  }
  cpu::fill(d, out, stride, n, value);
}

void note_write(void* out, const void* host, size_t bytes) {
  if (recording) {
    auto from = static_cast<const char*>(host);
    std::vector<char> kept(from, from + bytes);
    the_recording()->add(
        closure<write_label>({{out, true}}, [=] { cpu::write(out, kept.data(), kept.size()); }));
  }
  cpu::write(out, host, bytes);
}

void note_add_overlapping(DType d, char* into, const int64_t* into_strides, const char* g,
                          const int64_t* g_strides, const int64_t* sizes, int ndim) {
  if (recording) {
    auto a = copied(into_strides, ndim), b = copied(g_strides, ndim), s = copied(sizes, ndim);
    the_recording()->add(closure<add_overlapping_label>(
        {{into, true}, {g, false}},
        [=] { cpu::add_overlapping(d, into, a.data(), g, b.data(), s.data(), ndim); }, s));
  }
  cpu::add_overlapping(d, into, into_strides, g, g_strides, sizes, ndim);
}

void note_gather(int64_t itemsize, const void* x, const int64_t* x_strides, const int64_t* index,
                 const int64_t* index_strides, void* y, const int64_t* y_strides,
                 const int64_t* sizes, int ndim, int dim, int64_t dim_size) {
  if (recording) {
    auto a = copied(x_strides, ndim), b = copied(index_strides, ndim), c = copied(y_strides, ndim),
         s = copied(sizes, ndim);
    the_recording()->add(closure<gather_label>(
        {{y, true}, {x, false}, {index, false}},
        [=] {
          cpu::gather(itemsize, x, a.data(), index, b.data(), y, c.data(), s.data(), ndim, dim,
                      dim_size);
        },
        s));
  }
  cpu::gather(itemsize, x, x_strides, index, index_strides, y, y_strides, sizes, ndim, dim,
              dim_size);
}

void note_scatter(DType d, kernel::Scatter mode, void* y, const int64_t* y_strides,
                  const int64_t* index, const int64_t* index_strides, const void* src,
                  const int64_t* src_strides, const int64_t* sizes, int ndim, int dim,
                  int64_t dim_size) {
  if (recording) {
    auto a = copied(y_strides, ndim), b = copied(index_strides, ndim),
         c = copied(src_strides, ndim), s = copied(sizes, ndim);
    the_recording()->add(closure<scatter_label>(
        {{y, true}, {index, false}, {src, false}},
        [=] {
          cpu::scatter(d, mode, y, a.data(), index, b.data(), src, c.data(), s.data(), ndim, dim,
                       dim_size);
        },
        s));
  }
  cpu::scatter(d, mode, y, y_strides, index, index_strides, src, src_strides, sizes, ndim, dim,
               dim_size);
}

void note_unravel(const int64_t* flat, int64_t n, const int64_t* sizes, int ndim, int64_t* out) {
  if (recording) {
    auto s = copied(sizes, ndim);
    the_recording()->add(closure<unravel_label>(
        {{out, true}, {flat, false}}, [=] { cpu::unravel(flat, n, s.data(), ndim, out); }, s));
  }
  cpu::unravel(flat, n, sizes, ndim, out);
}

void note_gemm_nd(DType d, const kernel::BatchDim* dims, int ndim, int64_t m, int64_t n, int64_t k,
                  double alpha, kernel::MatrixRef a, kernel::MatrixRef b, double beta, void* c,
                  int64_t c_row_stride) {
  if (recording) {
    std::vector<kernel::BatchDim> all(dims, dims + ndim);
    auto made = closure<gemm_nd_label>(
        {{c, true}, {a.data, false}, {b.data, false}},
        [=] { cpu::gemm_nd(d, all.data(), ndim, m, n, k, alpha, a, b, beta, c, c_row_stride); },
        {m, n, k}, {d});
    made->params = {alpha, beta};
    the_recording()->add(std::move(made));
  }
  cpu::gemm_nd(d, dims, ndim, m, n, k, alpha, a, b, beta, c, c_row_stride);
}

void note_rnn_forward(DType d, kernel::RnnCell cell, kernel::RnnSteps s, const void* x,
                      const void* w_hh, const void* b_ih, const void* b_hh, const void* hx,
                      const void* cx, void* out, void* cells, void* kept) {
  if (recording) {
    auto sizes = copied(s.sizes, int(s.steps));
    the_recording()->add(closure<rnn_forward_label>(
        {{out, true},
         {cells, true},
         {kept, true},
         {x, false},
         {w_hh, false},
         {b_ih, false},
         {b_hh, false},
         {hx, false},
         {cx, false}},
        [=]() mutable {
          s.sizes = sizes.data();
          cpu::rnn_forward(d, cell, s, x, w_hh, b_ih, b_hh, hx, cx, out, cells, kept);
        },
        sizes));
  }
  cpu::rnn_forward(d, cell, s, x, w_hh, b_ih, b_hh, hx, cx, out, cells, kept);
}

void note_rnn_backward(DType d, kernel::RnnCell cell, kernel::RnnSteps s, const void* g_out,
                       const void* g_cells, const void* w_hh, const void* hx, const void* cx,
                       const void* out, const void* cells, const void* kept, void* gx, void* gh,
                       void* previous, void* g_hx, void* g_cx) {
  if (recording) {
    auto sizes = copied(s.sizes, int(s.steps));
    the_recording()->add(closure<rnn_backward_label>(
        {{gx, true},
         {gh, true},
         {previous, true},
         {g_hx, true},
         {g_cx, true},
         {g_out, false},
         {g_cells, false},
         {w_hh, false},
         {hx, false},
         {cx, false},
         {out, false},
         {cells, false},
         {kept, false}},
        [=]() mutable {
          s.sizes = sizes.data();
          cpu::rnn_backward(d, cell, s, g_out, g_cells, w_hh, hx, cx, out, cells, kept, gx, gh,
                            previous, g_hx, g_cx);
        },
        sizes));
  }
  cpu::rnn_backward(d, cell, s, g_out, g_cells, w_hh, hx, cx, out, cells, kept, gx, gh, previous,
                    g_hx, g_cx);
}

// ---- pointwise ops

// The numbers of a formula: as many as any has.
std::vector<double> numbers(kernel::Lanes lanes, const double* params) {
  return params ? std::vector<double>(params, params + formula_of(lanes).params)
                : std::vector<double>();
}

void note_pointwise(const kernel::PointwiseCall& call) {
  bool any = std::all_of(call.sizes, call.sizes + call.ndim, [](int64_t n) { return n > 0; });
  if (recording && any) {
    struct Kept {
      kernel::PointwiseCall call;
      std::vector<int64_t> sizes, strides[kernel::kMaxOperands + 1];
      std::vector<double> params;
    };
    auto kept = std::make_shared<Kept>();
    kept->call = call;
    kept->sizes = copied(call.sizes, call.ndim);
    kept->params = numbers(call.lanes, call.params);
    kept->call.sizes = kept->sizes.data();
    kept->call.params = kept->params.data();
    std::vector<std::pair<const void*, bool>> pointers{{call.out.data, true}};
    auto keep = [&](kernel::Operand& operand, int i) {
      if (!operand.data) return;
      kept->strides[i] = copied(operand.strides, call.ndim);
      operand.strides = kept->strides[i].data();
      if (i < kernel::kMaxOperands) pointers.emplace_back(operand.data, false);
    };
    for (int i = 0; i < call.inputs; i++) keep(kept->call.in[i], i);
    keep(kept->call.out, kernel::kMaxOperands);
    auto made = closure<pointwise_label>(pointers, [kept] { cpu::pointwise(kept->call); },
                                         kept->sizes, {call.compute, call.produced});
    made->params = kept->params;
    made->label = formula_of(call.lanes).name;
    the_recording()->add(std::move(made));
  }
  cpu::pointwise(call);
}

void note_pointwise_flat(kernel::Lanes lanes, const double* params, char* out, int64_t out_size,
                         const char* const* in, int inputs, unsigned singles, int64_t in_size,
                         int64_t n, double cost) {
  if (recording && n > 0) {
    struct Kept {
      std::vector<double> params;
      const char* in[kernel::kMaxOperands] = {};
      std::vector<std::pair<int, Bits>> numbers;
    };
    auto kept = std::make_shared<Kept>();
    kept->params = numbers(lanes, params);
    std::vector<std::pair<const void*, bool>> pointers{{out, true}};
    kept->numbers.reserve(kernel::kMaxOperands);
    for (int i = 0; i < inputs; i++) {
      kept->in[i] = in[i];
      if (!in[i]) continue;
      if (singles >> i & 1 && !the_recording()->knows(in[i])) {
        kept->numbers.emplace_back(i, Bits(in[i], in_size));
        kept->in[i] = kept->numbers.back().second.bytes;
      } else {
        pointers.emplace_back(in[i], false);
      }
    }
    auto made = closure<pointwise_flat_label>(pointers,
                                              [=] {
                                                cpu::pointwise_flat(lanes, kept->params.data(), out,
                                                                    out_size, kept->in, inputs,
                                                                    singles, in_size, n, cost);
                                              },
                                              {n});
    made->params = kept->params;
    made->label = formula_of(lanes).name;
    the_recording()->add(std::move(made));
  }
  cpu::pointwise_flat(lanes, params, out, out_size, in, inputs, singles, in_size, n, cost);
}

template <auto Member, class Label>
constexpr auto refused = Recorded<Member, Label>::refused;

}  // namespace

constinit const kernel::Table recording_table = [] {
  kernel::Table t = {
#define KERNEL(Result, name, parameters) .name = Recorded<&kernel::Table::name, name##_label>::run,
#include "kernels/table.def"
#undef KERNEL
  };
  // Memory and optimizers are not for these: tensors get theirs from the arena, and steps are
  // noted whole.
  t.allocate = cpu::allocate;
  t.release = cpu::release;
  t.run_steps = cpu::run_steps;
#define OWN(name) t.name = cpu::name
  OWN(sgd_kernel);
  OWN(adam_kernel);
  OWN(rmsprop_kernel);
  OWN(adagrad_kernel);
  OWN(adadelta_kernel);
  OWN(adamax_kernel);
  OWN(nadam_kernel);
  OWN(radam_kernel);
  OWN(rprop_kernel);
  OWN(asgd_kernel);
#undef OWN
  // What the program would depend on.
#define REFUSED(name) t.name = refused<&kernel::Table::name, name##_label>
  REFUSED(read);
  REFUSED(nonzero);
  REFUSED(range);
  REFUSED(scale_checked);
  REFUSED(fill_uniform);
  REFUSED(fill_normal);
  REFUSED(fill_exponential);
  REFUSED(fill_integers);
  REFUSED(fill_bernoulli);
  REFUSED(fill_bernoulli_each);
  REFUSED(fill_permutation);
  REFUSED(multinomial);
  REFUSED(fill_gamma);
  REFUSED(fill_poisson);
  REFUSED(fill_binomial);
  REFUSED(fill_dirichlet);
  REFUSED(gamma_slope);
  REFUSED(beta_slope);
  REFUSED(norm_all);
  REFUSED(scale_all);
#undef REFUSED
  t.copy_strided = note_copy_strided;
  t.fill = note_fill;
  t.write = note_write;
  t.write_constants = note_write;
  t.add_overlapping = note_add_overlapping;
  t.gather = note_gather;
  t.scatter = note_scatter;
  t.unravel = note_unravel;
  t.gemm_nd = note_gemm_nd;
  t.rnn_forward = note_rnn_forward;
  t.rnn_backward = note_rnn_backward;
  t.pointwise = note_pointwise;
  t.pointwise_flat = note_pointwise_flat;
  return t;
}();

constinit const kernel::LinalgTable recording_linalg = {
#define KERNEL(Result, name, parameters) \
  .name = Recorded<&kernel::LinalgTable::name, name##_label>::run,
#include "kernels/linalg.def"
#undef KERNEL
};

}  // namespace rl
