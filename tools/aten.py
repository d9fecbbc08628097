"""Writes the signatures of PyTorch's ops to src/rushlight/_operators/aten.txt.

They are facts about PyTorch, which must be installed: ``python tools/aten.py``. A line is a
signature; a star in front says that PyTorch composes the op of others.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

PATH = Path(__file__).resolve().parent.parent / "src" / "rushlight" / "_operators" / "aten.txt"
# Ops of other backends, of quantisation and of TorchScript.
LEFT_OUT = re.compile(
    r"(fbgemm|mkldnn|cudnn|miopen|quantize|fake_quant|q_|int_repr|_coalesced|sparse|nested|"
    r"_jagged|_cslt|mps|xnnpack|vulkan|_for_mps|sym_|prim|_autocast|batch_norm_(elemt|gather|stats)|"
    r"_foreach|_fused|_amp|rnn_(tanh|relu)|quantized|_assert|_test|_cufft|_masked_scale|glu_jvp)"
)
# Forms with results to write to, and types that only TorchScript has.
ODD = re.compile(r"\*, [^>]*!\)|\b(Dimname|Generator\(|__torch__|t\[\]|Dict|Future|AnyEnum|Any )")
# Names with an underscore, and of gradients, that graphs of aten ops are made of.
PRIVATE = {
    "_softmax", "_log_softmax", "_to_copy", "_unsafe_view", "_reshape_alias", "_conj",
    "_embedding_bag", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
    "_scaled_dot_product_flash_attention_for_cpu", "_adaptive_avg_pool2d", "_cdist_forward",
    "_convolution", "_unique2", "_safe_softmax", "_local_scalar_dense", "_pin_memory",
    "_sparse_addmm", "_sparse_mm_reduce_impl", "_softmax_backward_data", "_batch_norm_with_update",
    "_upsample_bilinear2d_aa", "_chunk_cat", "_unsafe_masked_index",
    "_unsafe_masked_index_put_accumulate", "native_dropout_backward",
    "max_pool2d_with_indices_backward",
}  # fmt: skip


def wanted(name: str, text: str) -> bool:
    if LEFT_OUT.match(name) or "Tensor" not in text:
        return False
    return name in PRIVATE or not (name.startswith("_") or "backward" in name)


def main() -> None:
    lines = set()
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        text = str(schema)
        if space != "aten" or not wanted(name, text) or schema.overload_name.endswith("out"):
            continue
        if re.search(
            r"\*, [^>]*!\)|\b(Dimname|Generator\(|__torch__|t\[\]|Dict|Future|AnyEnum|Any )", text
        ):
            continue
        full = f"aten::{name}.{schema.overload_name}".rstrip(".")
        try:
            composite = torch._C._dispatch_has_kernel_for_dispatch_key(
                full, "CompositeImplicitAutograd"
            )
        except RuntimeError:
            continue  # known to TorchScript only
        lines.add(("* " if composite else "") + text.removeprefix("aten::"))
    PATH.write_text("\n".join(sorted(lines, key=lambda t: t.removeprefix("* "))) + "\n")
    print(len(lines), "signatures,", PATH.stat().st_size, "bytes")


main()
