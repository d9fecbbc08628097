"""The base class of all layers and models."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._functions import typename
from rushlight._layout import memory_format as _memory_format
from rushlight.autograd.grad_mode import no_grad
from rushlight.nn.modules._hooks import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from rushlight.nn.modules._state import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX
from rushlight.nn.modules._state import StateMethods
from rushlight.nn.modules._state import _IncompatibleKeys as _IncompatibleKeys
from rushlight.nn.modules._traversal import TraversalMethods
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


def _has_any_global_hook() -> bool:
    return bool(
        _global_backward_pre_hooks
        or _global_backward_hooks
        or _global_forward_pre_hooks
        or _global_forward_hooks
        or _global_forward_hooks_always_called
        or _global_forward_hooks_with_kwargs
    )


def _after_hooks(
    hooks: dict[int, Callable[..., Any]], module: Module, name: str, value: Any
) -> Any:
    """What registration hooks make of a value."""
    for hook in hooks.values():
        result = hook(module, name, value)
        if result is not None:
            value = result
    return value


def _recomputed(state: dict[str, Any]) -> list[tuple[str, Callable[..., Any]]]:
    """The attributes that a copy of a module computes anew, with the hooks that do so."""
    hooks = state.get("_forward_pre_hooks", {}).values()
    named = [(getattr(hook, "_computed_attribute", ""), hook) for hook in hooks]
    return [(name, hook) for name, hook in named if isinstance(state.get(name), Tensor)]


def _addindent(text: str, spaces: int) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line if line.strip() else "" for line in rest)])


class _CallSignature:
    """What ``inspect.signature(module)`` says; of the class it finds that of ``__init__``."""

    def __get__(self, module: Module | None, cls: type) -> Any:
        if module is None:
            raise AttributeError("__signature__")
        from inspect import Parameter as Argument
        from inspect import Signature

        kinds = {"args": Argument.VAR_POSITIONAL, "kwargs": Argument.VAR_KEYWORD}
        return Signature([Argument(name, kind) for name, kind in kinds.items()])


class Module(TraversalMethods, StateMethods):
    """A part of a model: parameters, buffers, submodules and a ``forward``.

    >>> import rushlight as torch
    >>> class Scale(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = torch.nn.Parameter(torch.tensor(2.0))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> scale = Scale()
    >>> scale(torch.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    >>> [name for name, _ in scale.named_parameters()]
    ['factor']
    """

    dump_patches: bool = False
    call_super_init: bool = False
    training: bool
    __signature__ = _CallSignature()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (kwargs or args):
            name = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(f"{name} got an unexpected keyword argument '{next(iter(kwargs))}'")
            raise TypeError(f"{name} takes 1 positional argument but {len(args) + 1} were given")
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

        def forward(self, *args: Any, **kwargs: Any) -> Any: ...  # any parameters may override it

    else:

        def forward(self, *input: Any) -> Any:
            """What the module computes; every subclass defines it."""
            raise NotImplementedError(
                f'Module [{type(self).__name__}] is missing the required "forward" function'
            )

    # Registration.

    def _check_name(self, kind: str, name: Any, members: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in members and self._has(name):
            raise KeyError(f"attribute '{name}' already exists")

    def _has(self, name: str) -> bool:
        """hasattr(self, name), without the cost of an exception where it is not."""
        own, cls = self.__dict__, type(self)
        if name in own or any(name in own[k] for k in ("_parameters", "_buffers", "_modules")):
            return True
        if cls.__getattr__ is not _C.ModuleBase.__getattr__:  # type: ignore[attr-defined]
            return hasattr(self, name)
        # A property may raise AttributeError: then the attribute is not there.
        return any(name in base.__dict__ for base in cls.__mro__) and hasattr(self, name)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Adds a tensor that is state but not a parameter, such as a running mean."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if not (
            tensor is None or isinstance(tensor, Tensor) or hasattr(tensor, "__torch_function__")
        ):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = _after_hooks(_global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; it can be read as an attribute."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        self._parameters[name] = _after_hooks(
            _global_parameter_registration_hooks, self, name, param
        )

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a submodule; it can be read as an attribute."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if "_modules" not in self.__dict__:
            raise AttributeError("cannot assign module before Module.__init__() call")
        self._check_name("module", name, self._modules)
        self._modules[name] = _after_hooks(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as :meth:`add_module`."""
        self.add_module(name, module)

    def _set_member(self, name: str, value: Any) -> None:
        """Sets what is, or replaces, a parameter, a buffer or a submodule."""
        own = self.__dict__
        kinds = {k: own.get(k) for k in ("_parameters", "_modules", "_buffers")}
        parameters, modules, buffers = kinds.values()
        if isinstance(value, Parameter):
            self._make_room(parameters, "parameters", name)
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._make_room(modules, "module", name)
            self._modules[name] = _after_hooks(_global_module_registration_hooks, self, name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            modules[name] = _after_hooks(_global_module_registration_hooks, self, name, value)
        elif getattr(value, "_is_buffer", False) or (buffers is not None and name in buffers):
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _make_room(self, members: dict[str, Any] | None, what: str, name: str) -> None:
        """Forgets what else has the name that a parameter or a submodule gets."""
        if members is None:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        self._non_persistent_buffers_set.discard(name)
        for place in (self.__dict__, self._parameters, self._buffers, self._modules):
            if place is not members:
                place.pop(name, None)

    def _set_buffer(self, name: str, value: Any) -> None:
        if not (value is None or isinstance(value, Tensor) or hasattr(value, "__torch_function__")):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' "
                "(torch.nn.Buffer, torch.Tensor or None expected)"
            )
        persistent = name not in self._non_persistent_buffers_set
        if getattr(value, "_is_buffer", False):
            persistent = value.persistent
        if (
            getattr(self.register_buffer, "__func__", None) is Module.register_buffer
            or not persistent
        ):
            self.register_buffer(name, value, persistent)
        else:  # a subclass may have a register_buffer without `persistent`
            self.register_buffer(name, value)

    def __delattr__(self, name: str) -> None:
        for members in (self._parameters, self._buffers, self._modules):
            if name in members:
                del members[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    # Copies.

    def __getstate__(self) -> Any:
        from copyreg import _slotnames  # type: ignore[attr-defined]

        state = self.__dict__.copy()
        for name, _ in _recomputed(state):
            state[name] = state[name].detach()
        slots = {n: getattr(self, n) for n in _slotnames(type(self)) if hasattr(self, n)}
        return (state, slots) if slots else state

    def __reduce_ex__(self, protocol: Any) -> Any:
        return super().__reduce_ex__(max(int(protocol), 2))

    def __setstate__(self, state: Any) -> None:
        slots: dict[str, Any] = {}
        if isinstance(state, tuple):
            state, slots = state
        self.__dict__.update(state)
        self._drop_empty_hooks()
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        for name, value in slots.items():
            object.__setattr__(self, name, value)
        for _, hook in _recomputed(state):
            hook(self, ())

    def _replicate_for_data_parallel(self) -> Self:
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica.__dict__.update(
            _parameters={},
            _buffers=self._buffers.copy(),
            _modules=self._modules.copy(),
            _is_replica=True,
        )
        return replica

    # Conversion.

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replaces the content of every parameter, gradient and buffer by ``fn`` of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            grad = param.grad
            with no_grad():
                made = fn(param)
                if made.device == param.device:
                    param.data = made
                else:  # another tensor: who holds the old one keeps it
                    kind: Any = Parameter if getattr(param, "_is_spread", False) else type(param)
                    param = kind(made, param.requires_grad)
                if grad is not None:
                    param.grad = None
                    flag = grad.requires_grad
                    param.grad = fn(grad).detach().requires_grad_(flag)
            self._parameters[name] = param
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Calls ``fn`` on every submodule, children first, then on the module itself."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """``to(dtype)``, ``to(device)``, ``to(tensor)``: converts floating parameters and buffers.

        ``to(memory_format=...)`` lays out those of four and five dimensions.

        >>> import rushlight as torch
        >>> torch.nn.Linear(2, 2).to(torch.float64).weight.dtype
        torch.float64
        >>> torch.nn.Conv2d(3, 8, 2).to(memory_format=torch.channels_last).weight.stride()
        (12, 1, 6, 3)
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            import warnings

            warnings.warn(
                "Complex modules are a new feature under active development whose design may "
                "change, and some modules might not work as expected when using complex tensors as "
                "parameters or buffers.",
                stacklevel=2,
            )

        def convert(t: Tensor) -> Tensor:
            target = dtype if t.is_floating_point() or t.is_complex() else None
            options = {} if memory_format is None or t.dim() not in (4, 5) else {
                "memory_format": memory_format
            }  # fmt: skip
            return t.to(device, target, non_blocking, **options)

        return self._apply(convert)

    def type(self, dst_type: Any) -> Self:
        """Converts every parameter and buffer to a dtype."""
        return self._apply(lambda t: t.type(dst_type))

    def _cast(self, name: str) -> Self:
        return self._apply(lambda t: getattr(t, name)() if t.is_floating_point() else t)

    def float(self) -> Self:
        """Converts floating parameters and buffers to float32."""
        return self._cast("float")

    def double(self) -> Self:
        """Converts floating parameters and buffers to float64."""
        return self._cast("double")

    def half(self) -> Self:
        """Converts floating parameters and buffers to float16."""
        return self._cast("half")

    def bfloat16(self) -> Self:
        """Converts floating parameters and buffers to bfloat16."""
        return self._cast("bfloat16")

    def cpu(self) -> Self:
        """Moves parameters and buffers to main memory."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Moves parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Gives parameters and buffers new memory of undefined content."""
        empty_like = _C._namespaces[""]["empty_like"]
        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    def share_memory(self) -> Self:
        """Moves the tensors to memory that other processes can see."""
        return self._apply(lambda t: t.share_memory_())

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Accepted: calls run as they do without it."""

    # Modes and gradients.

    def train(self, mode: bool = True) -> Self:
        """Sets the training mode of this module and all below it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Sets the evaluation mode: ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets whether the parameters take gradients."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or sets them to zero."""
        _C._zero_grads(list(self.parameters()), set_to_none)

    # Printing.

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What ``repr`` says between the parentheses beside the submodules."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [
            f"({key}): {_addindent(repr(module), 2)}" for key, module in self._modules.items()
        ]
        lines = extra_lines + child_lines
        if len(extra_lines) == 1 and not child_lines:
            inside = extra_lines[0]
        else:
            inside = "\n  " + "\n  ".join(lines) + "\n" if lines else ""
        return f"{self._get_name()}({inside})"

    def __dir__(self) -> list[str]:
        keys = [*dir(type(self)), *self.__dict__]
        for members in (self._parameters, self._modules, self._buffers):
            keys += members
        return sorted({key for key in keys if not key[:1].isdigit()})


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """What the arguments of ``to`` ask for: device, dtype, non_blocking, memory format."""
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    memory_format = kwargs.pop("memory_format", None)
    tensor = kwargs.pop("tensor", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if memory_format is not None and not isinstance(memory_format, _memory_format):
        raise TypeError(
            "to(): argument 'memory_format' must be torch.memory_format, not "
            f"{typename(memory_format)}"
        )
    for a in args:
        if isinstance(a, _C.dtype):
            dtype = a
        elif isinstance(a, Tensor):
            tensor = a
        elif isinstance(a, bool):
            non_blocking = a
        elif isinstance(a, (str, int, _C.device)):
            device = a
        elif a is not None:
            raise TypeError(
                "to() received an invalid combination of arguments: expected a device, a dtype or "
                f"a Tensor, got {typename(a)}"
            )
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    return (None if device is None else _C.device(device)), dtype, non_blocking, memory_format
