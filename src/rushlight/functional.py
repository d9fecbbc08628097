"""Functions of the top namespace, by the module that PyTorch has them in."""

from rushlight import _ops
from rushlight._functions import broadcast_shapes as broadcast_shapes

_NAMES = (
    "atleast_1d", "atleast_2d", "atleast_3d", "align_tensors", "block_diag", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "split",
    "stft", "svd_lowrank", "pca_lowrank", "tensordot", "unique", "unique_consecutive",
    "unravel_index",
)  # fmt: skip

globals().update({name: getattr(_ops, name) for name in _NAMES if hasattr(_ops, name)})

_LATER = ("istft", "pca_lowrank", "stft", "svd_lowrank", "unravel_index")  # loaded when used

__all__ = [n for n in ("broadcast_shapes", *_NAMES) if n in globals() or n in _LATER]


def __getattr__(name: str) -> object:
    if name in _LATER:
        import rushlight

        return getattr(rushlight, name)
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.functional", name)
