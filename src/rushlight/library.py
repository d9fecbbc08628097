"""Ops of one's own: kernels, derivatives, shapes and batches of functions that PyTorch cannot see
into, under a name of ``torch.ops``.

>>> import numpy, rushlight as torch
>>> @torch.library.custom_op("docs::cube", mutates_args=())
... def cube(x: torch.Tensor) -> torch.Tensor:
...     return torch.from_numpy(x.numpy() ** 3)
>>> def setup_context(ctx, inputs, output):
...     ctx.save_for_backward(*inputs)
>>> def backward(ctx, grad):
...     (x,) = ctx.saved_tensors
...     return 3 * x**2 * grad
>>> torch.library.register_autograd("docs::cube", backward, setup_context=setup_context)
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> torch.ops.docs.cube(x).sum().backward()
>>> x.grad
tensor([ 3., 12.])
"""

from __future__ import annotations

import re

from rushlight._operators.custom import FakeImplCtx, Record
from rushlight._operators.custom import get_ctx as _get_ctx
from rushlight._operators.definitions import RESERVED
from rushlight._operators.definitions import define as _define
from rushlight._operators.definitions import fake_later as _fake_later
from rushlight._operators.definitions import forget as _forget
from rushlight._operators.definitions import record_of as _record_of
from rushlight._operators.definitions import split as _split
from rushlight._operators.infer import infer_schema
from rushlight._operators.overloads import OpOverload, ops
from rushlight._operators.schema import FunctionSchema
from rushlight._operators.triton import triton_op, wrap_triton

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "get_kernel",
    "impl", "impl_abstract", "infer_schema", "opcheck", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op",
    "wrap_triton",
]  # fmt: skip

_DEVICES = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "mps": "MPS", "xpu": "XPU"}


class Library:
    """Ops of a namespace: "DEF" makes it, "FRAGMENT" adds to it, "IMPL" adds kernels only.

    >>> import rushlight as torch
    >>> lib = torch.library.Library("docs_lib", "DEF")
    >>> lib.define("twice(Tensor x) -> Tensor")
    'twice'
    >>> lib.impl("twice", lambda x: 2 * x, "CPU")
    >>> torch.ops.docs_lib.twice(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}: use 'DEF', 'FRAGMENT' or 'IMPL'")
        if ns in RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key
        self._defined: list[Record] = []
        self._added: list[tuple[Record, str]] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Makes an op of a signature; its name is returned."""
        if self.kind == "IMPL":
            raise RuntimeError("Library.define: this library is 'IMPL', which defines nothing")
        parsed = FunctionSchema.parse(f"{self.ns}::{schema.strip()}")
        self._defined.append(_define(parsed, tags))
        return schema.partition("(")[0].strip()

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Gives an op the kernel for a dispatch key: "CPU", "Meta", "Autograd" or another."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        name = op_name.name() if isinstance(op_name, OpOverload) else op_name
        record = _record_of(name if "::" in name else f"{self.ns}::{name}")
        if key in record.kernels and not allow_override:
            raise RuntimeError(
                f"There is already a kernel registered from python overriding {record.name}'s "
                f"behavior for {key} dispatch key and {self.ns} namespace."
            )
        if key == "Meta":
            record.fake = fn
        record.kernels[key] = fn
        record.changed()
        self._added.append((record, key))

    def fallback(self, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False) -> NoReturn:
        """Raises: a kernel for all ops at once is a TorchDispatchMode."""
        raise RuntimeError(
            "Library.fallback: rushlight has no kernel for all ops; use a "
            "torch.utils._python_dispatch.TorchDispatchMode"
        )

    def _destroy(self) -> None:
        for record, key in self._added:
            record.kernels.pop(key, None)
            if key == "Meta":
                record.fake = None
            record.changed()
        for record in self._defined:
            _forget(record)
        self._added, self._defined = [], []

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *error: object) -> None:
        self._destroy()

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"


def _scoped_library(ns: str, kind: str, dispatch_key: str = "") -> Library:
    """A library whose ops end with the block."""
    return Library(ns, kind, dispatch_key)


class CustomOpDef:
    """An op made by ``custom_op``: call it, or add rules to it.

    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::halve", mutates_args=())
    ... def halve(x: torch.Tensor) -> torch.Tensor:
    ...     return x / 2
    >>> halve, halve(torch.ones(1))
    (<CustomOpDef(docs::halve)>, tensor([0.5000]))
    """

    def __init__(self, record: Record, fn: Callable[..., Any]) -> None:
        self._record = record
        self._init_fn = fn
        self._namespace, self._name, _ = _split(record.name)
        self._qualname = record.name
        self._disabled: dict[str, Any] = {}
        self.__name__ = self._name
        self.__doc__ = fn.__doc__

    @property
    def _schema(self) -> FunctionSchema:
        return self._record.schema

    @property
    def _opoverload(self) -> OpOverload:
        if self._record.overload is None:
            raise RuntimeError(f"{self._qualname} was taken back")
        return self._record.overload

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Gives the op a kernel for some devices; a decorator without ``fn``."""
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Says what the result's shape and dtype are, for tensors on the meta device."""
        self._record.fake = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Any = None
    ) -> None:
        """Says what the derivative is."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: Any = None, /) -> Any:
        """Says how a batch is computed at once."""
        return register_vmap(self, func)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Any = None, /) -> Any:
        """Says what happens for a mode or a subclass of tensors."""
        return register_torch_dispatch(self, torch_dispatch_class, fn)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Says to which dtype inputs are cast in an autocast region."""
        register_autocast(self, device_type, cast_inputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._record.call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Makes a function an op of ``torch.ops``; a decorator. Its annotations are the signature.

    ``mutates_args`` names the arguments that it writes to. Derivatives, shapes for the meta device
    and batches are added by ``register_autograd``, ``register_fake`` and ``register_vmap``.

    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::fill_with", mutates_args={"x"})
    ... def fill_with(x: torch.Tensor, value: float) -> None:
    ...     x.numpy()[:] = value
    >>> x = torch.zeros(2)
    >>> fill_with(x, 3.0)
    >>> x, torch.ops.docs.fill_with.default._schema
    (tensor([3., 3.]), docs::fill_with(Tensor(a0!) x, float value) -> ())
    """

    def wrap(fn: Callable[..., Any]) -> CustomOpDef:
        space, short, _ = _split(name)
        text = schema or infer_schema(fn, mutates_args=mutates_args)
        parsed = FunctionSchema.parse(f"{space}::{short}{text.strip()}")
        if schema is not None and mutates_args != "unknown":
            given = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
            if given != set(parsed.written()):
                raise ValueError(
                    f"custom_op: mutates_args {sorted(given)} and the schema {schema!r} name "
                    "different arguments that are written to"
                )
        old = vars(getattr(ops, space)).get(short)
        if old is not None and "default" in old.records:  # a module that is loaded again
            _forget(old.records["default"])
        record = _define(parsed, tags or ())
        record.checks_aliases = True
        made = CustomOpDef(record, fn)
        if device_types is None:
            record.kernels["CompositeExplicitAutograd"] = fn
        else:
            register_kernel(made, device_types, fn)
        return made

    return wrap if fn is None else wrap(fn)


def define(qualname: str, schema: Any = None, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Makes an op of a signature, which ``impl`` gives kernels.

    >>> import rushlight as torch
    >>> torch.library.define("docs::thrice", "(Tensor x) -> Tensor")
    >>> @torch.library.impl("docs::thrice", "cpu")
    ... def thrice(x):
    ...     return 3 * x
    >>> torch.ops.docs.thrice(torch.ones(1))
    tensor([3.])
    """
    if isinstance(qualname, Library):  # the older form: define(lib, "op(Tensor x) -> Tensor")
        name = qualname.define(schema)

        def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(name, fn)
            return fn

        return wrap
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected a str, got {type(qualname)}")
    space, name, overload = _split(qualname)
    if not re.fullmatch(r"\(.*\)\s*->\s*.*", schema.strip(), re.DOTALL):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> '
            f'Tensor" but got "{schema}"'
        )
    full = f"{space}::{name}" + (f".{overload}" if overload else "")
    record = _define(FunctionSchema.parse(full + schema.strip()), tags)
    if lib is not None:
        lib._defined.append(record)
    return None


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Gives an op a kernel for device types or "default"; a decorator without ``func``.

    >>> import rushlight as torch
    >>> torch.library.define("docs::negate", "(Tensor x) -> Tensor")
    >>> torch.library.impl("docs::negate", "cpu", lambda x: -x)
    >>> torch.ops.docs.negate(torch.ones(1))
    tensor([-1.])
    """
    if isinstance(qualname, Library):  # the older form: impl(lib, "op", "CPU")

        def older(fn: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(types, fn, func or "")
            return fn

        return older
    given = (types,) if isinstance(types, str) else tuple(types)

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        record = _record_of(qualname)
        for each in given:
            key = "CompositeExplicitAutograd" if each == "default" else _key_of(each)
            record.kernels[key] = fn
            if key == "Meta":
                record.fake = fn
            if lib is not None:
                lib._added.append((record, key))
        record.changed()
        return fn

    if func is None:
        return wrap
    wrap(func)
    return None


def _key_of(device: str) -> str:
    if device in _DEVICES:
        return _DEVICES[device]
    if device in _DEVICES.values() or device.startswith(("Composite", "Autograd")):
        return device
    raise ValueError(f"Unknown device type {device!r}: use one of {', '.join(_DEVICES)}")


def register_kernel(
    op: Any, device_types: Any, func: Any = None, /, *, lib: Library | None = None
) -> Any:
    """Gives an op a kernel for some devices (None: all); a decorator without ``func``.

    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::where", mutates_args=(), device_types="cuda")
    ... def where(x: torch.Tensor) -> torch.Tensor: ...
    >>> @where.register_kernel("cpu")
    ... def _(x):
    ...     return x.clone()
    >>> where(torch.ones(1))
    tensor([1.])
    """
    record = _record_of(op)
    devices = ("default",) if device_types is None else device_types
    qualname = record.name + (
        f".{record.schema.overload_name}" if record.schema.overload_name else ""
    )
    if func is None:
        return impl(qualname, devices, lib=lib)
    impl(qualname, devices, func, lib=lib)
    return func


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Says what shape and dtype an op's results have, for tensors on the meta device.

    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::row_sums", mutates_args=())
    ... def row_sums(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy().sum(1))
    >>> @torch.library.register_fake("docs::row_sums")
    ... def _(x):
    ...     return x.new_empty(x.shape[0])
    >>> torch.ops.docs.row_sums(torch.ones(3, 2, device="meta")).shape
    torch.Size([3])
    """

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        if _fake_later(op, fn):  # of a library whose compiled ops could not be loaded
            return fn
        record = _record_of(op)
        if record.fake is not None and not allow_override:
            raise RuntimeError(f"{record.name} has a fake impl already")
        record.fake = fn
        return fn

    return wrap if func is None else wrap(func)


def impl_abstract(
    qualname: Any, func: Any = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """Deprecated: ``register_fake``."""
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Says what an op's derivative is: ``backward(ctx, *grads)``, and what it needs to keep.

    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::square", mutates_args=())
    ... def square(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy() ** 2)
    >>> def keep(ctx, inputs, output):
    ...     ctx.save_for_backward(inputs[0])
    >>> def backward(ctx, grad):
    ...     return 2 * ctx.saved_tensors[0] * grad
    >>> torch.library.register_autograd("docs::square", backward, setup_context=keep)
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> torch.autograd.grad(square(x), x)
    (tensor([6.]),)
    """
    record = _record_of(op)
    if record.schema.is_mutable and not record.schema.returns:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {record.name} with "
            f"schema {record.schema}. Please create a functional operator and register an autograd "
            "formula for that."
        )
    record.backward, record.setup_context = backward, setup_context
    record.changed()


def register_vmap(op: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Says how an op computes a batch: ``func(info, in_dims, *args)`` gives (result, out_dims).

    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::sine", mutates_args=())
    ... def sine(x: torch.Tensor) -> torch.Tensor:
    ...     return x.sin()
    >>> @torch.library.register_vmap("docs::sine")
    ... def _(info, in_dims, x):
    ...     return sine(x), in_dims[0]
    >>> torch.vmap(sine)(torch.zeros(2, 1))
    tensor([[0.],
            [0.]])
    """
    record = _record_of(op)

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        record.vmap_rule = fn
        record.changed()
        return fn

    return wrap if func is None else wrap(func)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Library | None = None
) -> Any:
    """Says what an op does for a TorchDispatchMode or a class with ``__torch_dispatch__``.

    >>> import rushlight as torch
    >>> from rushlight.utils._python_dispatch import TorchDispatchMode
    >>> class Quiet(TorchDispatchMode):
    ...     pass
    >>> @torch.library.custom_op("docs::loud", mutates_args=())
    ... def loud(x: torch.Tensor) -> torch.Tensor:
    ...     return x.clone()
    >>> @torch.library.register_torch_dispatch("docs::loud", Quiet)
    ... def _(mode, func, types, args, kwargs):
    ...     return args[0] * 0
    >>> x = torch.ones(1)
    >>> with Quiet():
    ...     loud(x)
    tensor([0.])
    """
    record = _record_of(op)

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        if torch_dispatch_class in record.dispatch_rules:
            raise RuntimeError(
                f"{torch_dispatch_class} already has a `__torch_dispatch__` impl registered for "
                f"{record.name}"
            )
        record.dispatch_rules[torch_dispatch_class] = fn
        return fn

    return wrap if func is None else wrap(func)


def register_autocast(
    op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None
) -> None:
    """Says to which dtype an op's floating inputs are cast in an autocast region.

    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::same", mutates_args=())
    ... def same(x: torch.Tensor) -> torch.Tensor:
    ...     return x.clone()
    >>> torch.library.register_autocast("docs::same", "cpu", torch.bfloat16)
    >>> with torch.autocast("cpu"):
    ...     same(torch.ones(1)).dtype
    torch.bfloat16
    """
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")
    record = _record_of(op)
    if device_type in record.casts:
        raise RuntimeError(f"register_autocast: {record.name} has a rule for {device_type} already")
    record.casts[device_type] = cast_inputs


def get_ctx() -> FakeImplCtx:
    """The context of the fake impl that runs.

    >>> import rushlight as torch
    >>> torch.library.get_ctx()
    Traceback (most recent call last):
        ...
    RuntimeError: get_ctx() can only be called inside of a fake impl
    """
    return _get_ctx()


def get_kernel(op: Any, dispatch_key: Any) -> Callable[..., Any]:
    """The function that an op runs for a dispatch key.

    >>> import rushlight as torch
    >>> torch.library.define("docs::one", "(Tensor x) -> Tensor")
    >>> torch.library.impl("docs::one", "cpu", torch.ones_like)
    >>> torch.library.get_kernel("docs::one", "CPU") is torch.ones_like
    True
    """
    record = _record_of(op)
    key = getattr(dispatch_key, "name", dispatch_key)
    if key not in record.kernels:
        raise RuntimeError(f"{record.name} has no kernel for {key}; it has {list(record.kernels)}")
    return record.kernels[key]


def fallthrough_kernel() -> NoReturn:
    """Stands for a kernel that leaves the call to the next one; it is not called.

    >>> import rushlight as torch
    >>> torch.library.fallthrough_kernel()
    Traceback (most recent call last):
        ...
    NotImplementedError: fallthrough_kernel() should never be called.
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = (
        "test_schema",
        "test_autograd_registration",
        "test_faketensor",
        "test_aot_dispatch_dynamic",
    ),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Tries whether an op keeps to what is said of it: writes, shapes, gradients.

    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::plus_one", mutates_args=())
    ... def plus_one(x: torch.Tensor) -> torch.Tensor:
    ...     return x + 1
    >>> torch.library.opcheck(plus_one, (torch.ones(2),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    from rushlight._operators import opchecks

    return opchecks.run(_record_of(op), args, kwargs or {}, test_utils, raise_exception, atol, rtol)
