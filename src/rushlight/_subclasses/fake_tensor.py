"""Fake tensors: shape, type and device of a tensor, without elements.

Within ``FakeTensorMode`` every op answers with a fake tensor. Each holds a tensor of the device
``meta``, on which the op ran, and says that it is on the device that a real one would be on.
Shapes alone are followed: gradients are not recorded.
"""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from rushlight.utils._pytree import tree_flatten, tree_map

__all__ = [
    "DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorMode",
    "UnsupportedFakeTensorException", "UnsupportedOperatorException", "get_fake_mode", "is_fake",
]  # fmt: skip


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor cannot be faked."""


class _OfOp(RuntimeError):
    def __init__(self, func: Any) -> None:
        super().__init__(str(func))
        self.func = func


class UnsupportedOperatorException(_OfOp):
    """An op says nothing about the shape of its result."""


class DataDependentOutputException(_OfOp):
    """An op asks for elements, which fake tensors do not have."""


class DynamicOutputShapeException(_OfOp):
    """The shape of an op's result depends on elements, which fake tensors do not have."""


class FakeTensor(Tensor):
    """A tensor without elements: ``fake_device`` is where a real one would be.

    >>> import rushlight as torch
    >>> from rushlight._subclasses import FakeTensorMode
    >>> with FakeTensorMode():
    ...     torch.nn.Linear(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    elem: Tensor
    fake_mode: FakeTensorMode
    fake_device: rushlight.device

    @staticmethod
    def __new__(
        cls: type, fake_mode: FakeTensorMode, elem: Tensor, device: Any, requires_grad: bool = False
    ) -> FakeTensor:
        if elem.device.type != "meta":
            raise ValueError(
                f"FakeTensor: the tensor within must be on the device meta: got {elem.device}"
            )
        made: FakeTensor = Tensor._make_wrapper_subclass(
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            device=rushlight.device(device),
            requires_grad=requires_grad,
        )
        made.elem, made.fake_mode = elem, fake_mode
        made.fake_device = rushlight.device(device)
        return made

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        parts = ["..." if tensor_contents is None else tensor_contents]
        parts.append(f"size=({', '.join(map(str, self.shape))}{',' if self.dim() == 1 else ''})")
        if self.fake_device.type != "cpu":
            parts.append(f"device='{self.fake_device}'")
        if self.dtype != rushlight.get_default_dtype():
            parts.append(f"dtype={self.dtype}")
        if self.requires_grad:
            parts.append("requires_grad=True")
        return f"FakeTensor({', '.join(parts)})"

    @property
    def is_meta(self) -> bool:
        """Whether a real one would have no elements either."""
        return self.fake_device.type == "meta"

    def __bool__(self) -> bool:
        raise DataDependentOutputException("aten._local_scalar_dense.default")

    def item(self) -> Any:
        """Raises: there are no elements."""
        raise DataDependentOutputException("aten._local_scalar_dense.default")

    __int__ = __float__ = __index__ = __complex__ = item

    def tolist(self) -> Any:
        """Raises: there are no elements."""
        raise DataDependentOutputException("aten._local_scalar_dense.default")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        mode = get_fake_mode((args, kwargs))
        assert mode is not None
        return mode.run(func, args, kwargs or {})


class FakeTensorMode(TorchDispatchMode):
    """``with FakeTensorMode():`` makes tensors fake, and ops on them answer with fake ones.

    >>> import rushlight as torch
    >>> from rushlight._subclasses import FakeTensorMode
    >>> mode = FakeTensorMode()
    >>> x = mode.from_tensor(torch.ones(3, 5))
    >>> x @ x.t(), x.device
    (FakeTensor(..., size=(3, 3)), device(type='cpu'))
    """

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: Any = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ) -> None:
        super().__init__()
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env, self.static_shapes = shape_env, True if shape_env is None else static_shapes

    def from_tensor(
        self,
        tensor: Tensor,
        *,
        static_shapes: bool | None = None,
        source: Any = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> FakeTensor:
        """A fake tensor of the shape, strides, type and device of a real one."""
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError("FakeTensorMode.from_tensor: the tensor is of another mode")
            return tensor
        with rushlight.no_grad(), _disable_current_modes():
            elem = rushlight.empty_strided(
                tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta"
            )
        return FakeTensor(self, elem, tensor.device, tensor.requires_grad and tensor.is_leaf)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What an op answers, of fake and of real arguments."""
        fakes: dict[int, FakeTensor] = {}
        device: rushlight.device | None = None
        asked = kwargs.get("device")

        def inner(value: Any) -> Any:
            nonlocal device, asked
            if isinstance(value, rushlight.device):
                asked = value
                return rushlight.device("meta")
            if isinstance(value, FakeTensor):
                if device is None or (device.type == "cpu" and value.dim() > 0):
                    device = value.fake_device
                fakes[id(value.elem)] = value
                return value.elem
            if isinstance(value, Tensor) and value.device.type != "meta":
                if value.dim() > 0 and not self.allow_non_fake_inputs:
                    raise AssertionError(
                        "Please convert all Tensors to FakeTensors first or instantiate "
                        f"FakeTensorMode with 'allow_non_fake_inputs'. Found in {func} a tensor of "
                        f"size {tuple(value.shape)}: mode.from_tensor(tensor) makes one"
                    )
                device = device or value.device
                return value.to("meta")
            return value

        given, named = tree_map(inner, args), tree_map(inner, kwargs)
        if asked is not None or device is None:
            device = rushlight.device(asked or rushlight.get_default_device())
        if "device" in kwargs or not fakes:
            named["device"] = "meta"
        try:
            result = func(*given, **named)
        except NotImplementedError as error:
            # Nothing else says whether the shape or only the elements of the result are unknown.
            dynamic = "depends on the elements" in str(error)
            kind = DynamicOutputShapeException if dynamic else DataDependentOutputException
            raise kind(func) from None

        def outer(value: Any) -> Any:
            if not isinstance(value, Tensor) or isinstance(value, FakeTensor):
                return value
            same = fakes.get(id(value))  # of an op in place
            return FakeTensor(self, value, device) if same is None else same

        return tree_map(outer, result)


def is_fake(x: Any) -> bool:
    """Whether it is a fake tensor.

    >>> import rushlight as torch
    >>> from rushlight._subclasses.fake_tensor import is_fake
    >>> is_fake(torch.ones(2))
    False
    """
    return isinstance(x, FakeTensor)


def get_fake_mode(tree: Any) -> FakeTensorMode | None:
    """The mode of the first fake tensor in a structure, or None.

    >>> import rushlight as torch
    >>> from rushlight._subclasses.fake_tensor import FakeTensorMode, get_fake_mode
    >>> mode = FakeTensorMode()
    >>> get_fake_mode([1, mode.from_tensor(torch.ones(2))]) is mode
    True
    """
    leaves = tree_flatten(tree)[0]
    return next((leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor)), None)
