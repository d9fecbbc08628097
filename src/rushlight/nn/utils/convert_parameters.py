"""All parameters as one vector, and back."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._functions import typename

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters in one row.

    >>> import rushlight as torch
    >>> torch.nn.utils.parameters_to_vector([torch.ones(2, 2), torch.zeros(1)]).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """
    return _C._namespaces[""]["cat"]([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Gives the parameters slices of a vector as their values.

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> torch.nn.utils.vector_to_parameters(torch.arange(3.0), layer.parameters())
    >>> layer.weight.tolist(), layer.bias.tolist()
    ([[0.0, 1.0]], [2.0])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    at = 0
    for p in parameters:
        end = at + p.numel()
        if end > vec.numel():
            raise RuntimeError(
                f"vector_to_parameters: the vector has {vec.numel()} elements, the parameters more"
            )
        p.data = vec[at:end].view_as(p).data
        at = end
