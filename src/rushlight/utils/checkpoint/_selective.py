"""Selective checkpointing: a policy says which ops' results a region keeps."""

from __future__ import annotations

import enum
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rushlight.utils.checkpoint._tape import Tape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from rushlight.utils.checkpoint._program import Call

    Policy = Callable[..., "CheckpointPolicy | bool"]


class CheckpointPolicy(enum.Enum):
    """What a policy answers about an op. Results that are offloaded stay in main memory.

    >>> from rushlight.utils.checkpoint import CheckpointPolicy
    >>> [policy.name for policy in CheckpointPolicy][:2]
    ['MUST_SAVE', 'PREFER_SAVE']
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)

SAC_IGNORED_OPS: set[str] = {"detach"}
"""Names of ops that no policy is asked about."""


class SelectiveCheckpointContext:
    """The first argument of a policy.

    ``is_recompute`` is always False here: a recomputation repeats what the policy chose in the
    forward pass, without asking again.

    >>> import rushlight as torch
    >>> from functools import partial
    >>> from rushlight.utils import checkpoint as ck
    >>> def policy(context, op, *args):
    ...     print(op.__name__, context.is_recompute)
    ...     return ck.CheckpointPolicy.MUST_SAVE
    >>> save_all = partial(ck.create_selective_checkpoint_contexts, policy)
    >>> y = ck.checkpoint(torch.exp, torch.zeros(2, requires_grad=True), context_fn=save_all)
    exp False
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Selective(Tape):
    may_run_again = False

    def __init__(self, policy: Policy, allow_mutation: bool) -> None:
        super().__init__()
        self.policy = policy
        self.allow_mutation = allow_mutation

    def keeps(self, call: Call, args: Any, kwargs: dict[str, Any], out: Any) -> bool:
        if call.func.__name__ in SAC_IGNORED_OPS:
            return False
        context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        answer = self.policy(context, call.func, *args, **kwargs)
        return answer not in _RECOMPUTED if isinstance(answer, CheckpointPolicy) else answer


def _name(op: Any) -> str:
    """The name of an op; ``aten.mm.default`` is ``mm``."""
    name = getattr(op, "__name__", None)
    if not callable(op) or name is None:
        raise ValueError(f"Expected op in `op_list` to be an op but got: {op} of type {type(op)}.")
    return name.split(".")[0]


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """What ``context_fn`` of ``checkpoint`` returns to keep the results of some ops.

    Given a list, the region keeps the results of these ops; given a function, those of ops for
    which ``policy_fn(ctx, op, *args, **kwargs)`` says so. The ops are those that the program
    calls: ``a @ b`` is ``rushlight.matmul``, a linear layer ``nn.functional.linear``.

    >>> import functools
    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> keep_products = functools.partial(create_selective_checkpoint_contexts, [torch.matmul])
    >>> x = torch.eye(2, requires_grad=True)
    >>> checkpoint(lambda t: (t @ t).exp(), x, context_fn=keep_products).sum().backward()
    >>> x.grad
    tensor([[5.4366, 2.0000],
            [2.0000, 5.4366]])

    Writing in place to a kept result is an error unless ``allow_cache_entry_mutation``.
    """
    if isinstance(policy_fn_or_list, (list, tuple)):
        names = {_name(op) for op in policy_fn_or_list}

        def policy(context: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any) -> bool:
            return op.__name__ in names

        return _Selective(policy, allow_cache_entry_mutation), nullcontext()
    if callable(policy_fn_or_list):
        return _Selective(policy_fn_or_list, allow_cache_entry_mutation), nullcontext()
    raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
