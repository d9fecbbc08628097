// What kernels are told besides pointers: shapes, layouts and modes, on any device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace rl::cpu {
struct Mersenne;
}

namespace rl::kernel {

// What a check of indices found: the position of the first one outside of its range, and its value.
struct Outside {
  int64_t at = -1;
  int64_t value = 0;
  explicit operator bool() const { return at >= 0; }
};

struct Range {
  int64_t low, high;
};

// ---- pointwise

// out[i] = f(in[0][i], in[1][i], ...; params) for n consecutive elements of the compute type.
using Lanes = void (*)(char* out, const char* const* in, const double* params, int64_t n);

inline constexpr int kMaxOperands = 6;

struct Operand {
  char* data = nullptr;              // null: not read
  const int64_t* strides = nullptr;  // in elements, one per dimension; 0 where broadcast
  DType dtype = DType::F32;
  bool host = false;  // a single number in the host's memory, beside tensors of a device
};

struct PointwiseCall {
  Lanes lanes;
  const double* params;
  DType compute;   // what the inputs are converted to
  DType produced;  // what the lanes write
  Operand out;
  Operand in[kMaxOperands];
  int inputs;
  const int64_t* sizes;
  int ndim;
  double cost;  // of one element, in units of an addition
};

// ---- indices

enum class Scatter { Set, Add, Multiply, Amax, Amin };

// ---- products

// A matrix in memory; strides in elements.
struct MatrixRef {
  const void* data;
  int64_t row_stride, col_stride;
};

inline constexpr int kMaxBatchDims = 64;

// A batch dimension and its strides, in elements, in a, b and c. With `summed`, the products along
// it are added up (c has no such dimension, and its stride is not read).
struct BatchDim {
  int64_t size, a, b, c;
  bool summed;
};

// ---- convolutions, pools and resampling, over three spatial dimensions (fewer: leading ones of 1)

using Extent = std::array<int64_t, 3>;

inline int64_t volume(const Extent& e) { return e[0] * e[1] * e[2]; }

// x [batch, groups * in, *input], w [groups * out, in, *kernel], y [batch, groups * out, *output].
struct Convolution {
  int64_t batch, groups, in, out;  // channels of one group
  Extent input, output, kernel, stride, padding, dilation;
  int64_t channels_last = 0;  // x, y and w have their second dimension innermost in memory
};

// x [planes, *input] to y [planes, *output].
struct Pooling {
  int64_t planes;
  Extent input, output, kernel, stride, padding, dilation;
};

// Which tap of its window a maximum came from is kept as a number of this type, its largest for
// none.
inline DType tap_type(const Pooling& p) {
  return volume(p.kernel) <= UINT8_MAX ? DType::U8 : DType::I32;
}

// A linear map along one dimension: output j is the sum of weight[e] * input index[e] for e in
// [first[j], first[j + 1]), divided by divisor[j].
struct AxisMap {
  int64_t input, output;
  std::vector<int32_t> first, index;
  std::vector<double> weight;    // empty: all are one
  std::vector<int64_t> divisor;  // empty: all are one

  AxisMap(int64_t input, int64_t output) : input(input), output(output), first{0} {}
  // The next output is the sum over [begin, end).
  void add_window(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) index.push_back(int32_t(i));
    first.push_back(int32_t(index.size()));
  }
  void add(int64_t at, double w) {
    index.push_back(int32_t(at));
    weight.push_back(w);
  }
  void close() { first.push_back(int32_t(index.size())); }
};

using AxisMaps = std::vector<AxisMap>;  // three of them

// ---- random numbers by rejection

// Where uniform numbers come from: torch's engine, or, without one, the counter-based stream.
struct UniformSource {
  cpu::Mersenne* engine;
  uint64_t seed, offset;
};

// start + i * step for i in [0, half), and stop - (n - 1 - i) * step from there on; of whole numbers
// first + i * by.
struct Ramp {
  bool whole;
  int64_t first, by;
  double start, step, stop;
  int64_t half;
};

// ---- layers

struct ChannelShape {
  int64_t batch, channels, inner;
};

// A tensor [batch, heads, rows, columns] with unit column stride; strides in elements.
struct Heads {
  void* data;
  int64_t batch, head, row;
};

// What is added to the scores; data is null for nothing. Any strides.
struct ScoreMask {
  const void* data;
  int64_t batch, head, row, col;
};

struct AttentionShape {
  int64_t batch, heads, key_heads;  // consecutive heads share a key head
  int64_t queries, keys, width, value_width;
  double scale;
  bool causal;  // query i sees keys up to i
};

enum class RnnCell : int64_t { Tanh, Relu, Lstm, Gru };

// Widths in units of the hidden size: of a cell's products, and of what its backward keeps of a
// step.
inline int64_t rnn_gates(RnnCell cell) {
  return cell == RnnCell::Lstm ? 4 : cell == RnnCell::Gru ? 3 : 1;
}
inline int64_t rnn_kept(RnnCell cell) {
  return cell == RnnCell::Lstm || cell == RnnCell::Gru ? 4 : 0;
}

// Steps follow each other in memory: step t has sizes[t] rows, one for each sequence that is that
// long; sizes do not grow. In reverse, sequences are run from their last step to their first.
struct RnnSteps {
  const int64_t* sizes;
  int64_t steps, batch, hidden;
  bool reverse;
};

// ---- optimizers

inline constexpr int kStepStates = 3;
inline constexpr int kStepNumbers = 10;

// n contiguous real elements to be changed.
struct Piece {
  DType dtype;
  void* data;
  int64_t n;
};

struct Step;
// The device's own way to run a rule over some elements of a parameter.
using StepKernel = void (*)(const Step&, int64_t begin, int64_t end);

// The work of one parameter: contiguous arrays of n real elements and the rule's numbers. The
// first two of these are the sign of the gradient and the decay.
struct Step {
  StepKernel kernel;
  DType dtype;
  int64_t n;
  void* param;
  const void* grad;
  void* state[kStepStates];
  double numbers[kStepNumbers];
};

// Weight decay: none (a factor of 1), added to the gradient, or a factor of the parameter.
enum class Decay : uint8_t { None, Gradient, Parameter };
// First: the buffer becomes the gradient.
enum class Momentum : uint8_t { None, First, FirstNesterov, Plain, Nesterov };

}  // namespace rl::kernel
