"""Operations over lists of tensors."""

import pytest
import torch

from oracle.harness import assert_same_outcome

CALLS = [
    "torch._foreach_add(a, 2)",
    "torch._foreach_add(a, [2.0, 3.0])",
    "torch._foreach_add(a, b, alpha=3)",
    "torch._foreach_sub_(a, b)",
    "torch._foreach_mul(a, torch.tensor(2.0))",
    "torch._foreach_div_(a, [2.0, 4.0])",
    "torch._foreach_pow(2.0, a)",
    "torch._foreach_pow(a, [2.0, 3.0])",
    "torch._foreach_maximum(a, b)",
    "torch._foreach_maximum_(a, 0.5)",
    "torch._foreach_minimum(a, [0.5, 0.1])",
    "torch._foreach_clamp_min_(a, 0.2)",
    "torch._foreach_clamp_max(a, 0.2)",
    "torch._foreach_addcmul(a, b, b, 0.5)",
    "torch._foreach_addcmul_(a, b, b, [0.5, 0.25])",
    "torch._foreach_addcdiv_(a, b, b)",
    "torch._foreach_addcdiv(a, b, b, value=0.5)",
    "torch._foreach_lerp(a, b, 0.25)",
    "torch._foreach_lerp_(a, b, 0.25)",
    "torch._foreach_norm(a)",
    "torch._foreach_norm(a, 1)",
    "torch._foreach_norm(a, float('inf'))",
    "torch._foreach_max(a)",
    "torch._foreach_zero_(a)",
    "torch._foreach_copy_(a, b)",
    "torch._foreach_neg(a)",
    "torch._foreach_sqrt(torch._foreach_abs(a))",
    "torch._foreach_exp_(a)",
    "torch._foreach_sign(a)",
    "torch._foreach_add([], 1)",
    "torch._foreach_add(a, b[:1])",
    "torch._foreach_add(1, 1)",
    "torch._foreach_nothing(a)",
]


@pytest.mark.parametrize("call", CALLS)
def test_call(call):
    def program(library):
        a = [library.tensor([0.5, -1.0, 2.0]), library.tensor([[3.0]])]
        b = [library.tensor([1.5, 1.0, -2.0]), library.tensor([[0.25]])]
        return eval(call, {"torch": library, "a": a, "b": b}), a

    assert_same_outcome(program)


def test_every_name_of_torch_answers():
    import rushlight

    names = [n for n in dir(torch) if n.startswith("_foreach_")]
    missing = [n for n in names if not hasattr(rushlight, n)]
    assert missing == []
