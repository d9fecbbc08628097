"""Sample inputs of attention; `samples` imports this module."""

import rushlight as torch
from samples import Maker, floating, sample, samples


@samples("nn.functional.scaled_dot_product_attention")
@floating
def attentions(dtype, seed):
    make = Maker(dtype, seed)
    seen = torch.tensor([[True, False], [False, False]])
    yield sample(make(1, 1, 2, 2), make(1, 1, 2, 2), make(1, 1, 2, 2))
    yield sample(make(1, 1, 2, 1), make(1, 1, 2, 1), make(1, 1, 2, 1), is_causal=True)
    yield sample(make(1, 1, 2, 1), make(1, 1, 2, 1), make(1, 1, 2, 2), seen, scale=0.7)
    yield sample(make(1, 2, 1), make(1, 2, 1), make(1, 2, 1), make(2, 2))
    yield sample(make(2, 3), make(4, 3), make(4, 2), is_causal=True, scale=1.3)
    yield sample(make(1, 2, 1, 2), make(1, 1, 2, 2), make(1, 1, 2, 1), enable_gqa=True)
    yield sample(make.transposed(2, 2, 3, 4), make.strided(2, 2, 5, 4), make(2, 2, 5, 6))
    yield sample(make(2, 1, 3, 2), make(1, 2, 2, 2), make(2, 2, 2, 1), attn_mask=make(2, 1, 3, 1))
    yield sample(make(2, 1, 2, 2), make(2, 1, 0, 2), make(2, 1, 0, 2))
    yield sample(make(0, 1, 2, 2), make(0, 1, 3, 2), make(0, 1, 3, 2))
