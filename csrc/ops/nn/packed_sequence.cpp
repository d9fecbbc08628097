// Batches of sequences of different lengths: padded, and packed step by step without the padding.
#include "call/broadcast.h"
#include "call/op.h"

namespace rl {

namespace {

Var rows_of(const Var& x) {  // the first two dimensions as one
  Ints sizes = x.sizes();
  sizes[1] *= sizes[0];
  sizes.erase(0);
  return ops::reshape(x, sizes);
}

struct PackPaddedSequence : Composite {
  static constexpr auto signature =
      "_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first)";
  static constexpr auto doc =
      "_pack_padded_sequence(x, lengths, batch_first): the rows of sequences that are sorted by "
      "falling length, step by step, and how many there are in each step.";
  static constexpr Family family = Family::Recurrent;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 2> forward(const Var& input, const Var& lengths, bool batch_first) {
    check(input.dim() >= 2,
          "pack_padded_sequence: expected an input of at least 2 dimensions, got ", input.sizes());
    Var x = batch_first ? ops::transpose(input, 0, 1) : input, list = ops::contiguous(lengths);
    int64_t steps = x.size(0), batch = x.size(1);
    check(input.numel() > 0, "Cannot pack empty tensors.");
    check(list.dim() == 1 && list.dtype() == DType::I64,
          "'lengths' argument should be a 1D CPU int64 tensor, but got ", list.dim(), "D ",
          info(list.dtype()).tensor_name, " tensor");
    check(list.numel() == batch, "Expected `len(lengths)` to be equal to batch_size, but got ",
          list.numel(), " (batch_size=", batch, ")");
    require_plain(lengths.get(), "packing by lengths");
    const int64_t* length = list->host<int64_t>();
    int64_t rows = 0;
    for (int64_t b = 0; b < batch; b++) {
      check(length[b] > 0,
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0: lengths[",
            b, "] = ", length[b]);
      check(b == 0 || length[b] <= length[b - 1],
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability.");
      check(length[b] <= steps, "Expected lengths of at most ", steps, " (the padded length), got ",
            length[b]);
      rows += length[b];
    }
    Var sizes = empty({length[0]}, DType::I64, input.device()),
        at = empty({rows}, DType::I64, input.device());
    int64_t next = 0, alive = batch;
    for (int64_t t = 0; t < length[0]; t++) {
      while (length[alive - 1] <= t) alive--;
      sizes->host<int64_t>()[t] = alive;
      for (int64_t b = 0; b < alive; b++) at->host<int64_t>()[next++] = t * batch + b;
    }
    return {ops::index_select(rows_of(x), 0, at), sizes};
  }
};
RL_OP(PackPaddedSequence)

struct PadPackedSequence : Composite {
  static constexpr auto signature =
      "_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, "
      "float padding_value, int total_length)";
  static constexpr auto doc =
      "_pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length): the "
      "padded batch of packed sequences, and their lengths.";
  static constexpr Family family = Family::Recurrent;
  static constexpr bool method = false;
  static constexpr bool out = false;
  static std::array<Var, 2> forward(const Var& data, const Var& batch_sizes, bool batch_first,
                                    double padding_value, int64_t total_length) {
    Var sizes = ops::contiguous(batch_sizes);
    check(sizes.dim() == 1 && sizes.dtype() == DType::I64 && sizes.numel() > 0,
          "batch_sizes should be a non-empty 1-dimensional int64 tensor, got ", sizes.sizes());
    require_plain(batch_sizes.get(), "padding by sizes");
    int64_t steps = sizes.numel(), batch = sizes->host<int64_t>()[0];
    if (total_length > 0) {
      if (total_length < steps)
        fail_as(PyExc_ValueError,
                "Expected total_length to be at least the length of the longest "
                "sequence in input, but got total_length=",
                total_length, " and max sequence length being ", steps);
      steps = total_length;
    }
    Var lengths = ops::zeros({batch}, DType::I64, data.device()),
        at = empty({steps * batch}, DType::I64, data.device());
    int64_t rows = data.size(0), row = 0;
    for (int64_t t = 0; t < steps; t++) {
      int64_t alive = t < sizes.numel() ? sizes->host<int64_t>()[t] : 0;
      check(alive >= 0 && alive <= batch && row + alive <= rows,
            "batch_sizes do not describe the data of shape ", data.sizes(), ": ", alive,
            " rows at step ", t);
      for (int64_t b = 0; b < batch; b++)
        at->host<int64_t>()[t * batch + b] = b < alive ? row + b : rows;
      for (int64_t b = 0; b < alive; b++) lengths->host<int64_t>()[b] = t + 1;
      row += alive;
    }
    Ints one = data.sizes(), all = data.sizes();
    one[0] = 1;
    Var padding = ops::full(one, padding_value, data.dtype(), data.device());
    Var padded = ops::index_select(ops::cat({data, padding}, 0), 0, at);
    all[0] = batch;
    all.insert(0, steps);
    padded = ops::reshape(padded, all);
    return {batch_first ? ops::transpose(padded, 0, 1) : padded, lengths};
  }
};
RL_OP(PadPackedSequence)

}  // namespace
}  // namespace rl
