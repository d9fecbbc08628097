"""Normalisation over the batch."""

from __future__ import annotations

from rushlight import _C
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "SyncBatchNorm",
]  # fmt: skip

_ops = _C._namespaces[""]


class _NormBase(Module):
    """Weights and running statistics for each of ``num_features`` channels."""

    _version = 2
    dims: tuple[int, ...] = ()  # how many dimensions an input may have

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(_ops["empty"](num_features, **options)) if wanted else None
            self.register_parameter(name, value)
        stats: dict[str, Any] = dict.fromkeys(
            ["running_mean", "running_var", "num_batches_tracked"]
        )
        if track_running_stats:
            stats["running_mean"] = _ops["zeros"](num_features, **options)
            stats["running_var"] = _ops["ones"](num_features, **options)
            stats["num_batches_tracked"] = _ops["zeros"]((), dtype=_C.int64, device=device)
        for name, value in stats.items():
            self.register_buffer(name, value)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forgets the statistics of the batches seen so far."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Sets weights to one, biases to zero, and forgets the statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self.dims:
            expected = " or ".join(f"{d}D" for d in self.dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        old = version is None or version < 2  # such files do not count batches
        if old and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            state_dict[key] = _C._tensor(0, _C.int64, None, False) if count is None else count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    """Normalises each channel over the batch and all positions."""

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        training, factor = self.training, self.momentum
        mean, var = self.running_mean, self.running_var
        if training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if factor is None:
                factor = 1.0 / float(self.num_batches_tracked)
        if training and not self.track_running_stats:
            mean = var = None
        by_batch = training or (mean is None and var is None)
        factor = 0.0 if factor is None else factor
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, factor, self.eps)


class _LazyNormBase(LazyModuleMixin):
    """Norms that take ``num_features`` from the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**options)
            if bias:
                self.bias = UninitializedParameter(**options)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = _ops["zeros"]((), dtype=_C.int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        members = [self.weight, self.bias, self.running_mean, self.running_var]
        for member in members:
            if member is not None:
                member.materialize((self.num_features,))
        self.reset_parameters()


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (batch, channels) or (batch, channels, length).

    >>> import rushlight as torch
    >>> torch.nn.BatchNorm1d(1)(torch.tensor([[1.0], [3.0]])).round().flatten().tolist()
    [-1.0, 1.0]
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (batch, channels, height, width).

    >>> import rushlight as torch
    >>> torch.nn.BatchNorm2d(3)(torch.zeros(4, 3, 5, 5)).shape
    torch.Size([4, 3, 5, 5])
    """

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (batch, channels, depth, height, width).

    >>> import rushlight as torch
    >>> torch.nn.BatchNorm3d(3)(torch.zeros(4, 3, 2, 5, 5)).shape
    torch.Size([4, 3, 2, 5, 5])
    """

    dims = (5,)


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """A BatchNorm1d whose ``num_features`` come from the first input.

    >>> import rushlight as torch
    >>> norm = torch.nn.LazyBatchNorm1d()
    >>> norm(torch.zeros(4, 3)).shape, norm.num_features
    (torch.Size([4, 3]), 3)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """A BatchNorm2d whose ``num_features`` come from the first input.

    >>> import rushlight as torch
    >>> norm = torch.nn.LazyBatchNorm2d()
    >>> norm(torch.zeros(4, 3, 5, 5)).shape, norm.num_features
    (torch.Size([4, 3, 5, 5]), 3)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """A BatchNorm3d whose ``num_features`` come from the first input.

    >>> import rushlight as torch
    >>> norm = torch.nn.LazyBatchNorm3d()
    >>> norm(torch.zeros(4, 3, 2, 5, 5)).shape, norm.num_features
    (torch.Size([4, 3, 2, 5, 5]), 3)
    """

    cls_to_become = BatchNorm3d


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of any number of dimensions; in one process there is one batch.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    >>> type(torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]).__name__
    'SyncBatchNorm'
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch norm in it replaced by a SyncBatchNorm."""
        result = module
        if isinstance(module, _BatchNorm):
            result = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(result, name, getattr(module, name))
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result
