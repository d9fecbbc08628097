"""State dicts of modules: taking the state out and putting it in."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.autograd.grad_mode import no_grad
from rushlight.nn.modules._hooks import HookMethods, WrappedHook, add
from rushlight.nn.parameter import Parameter, is_lazy

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rushlight.utils.hooks import RemovableHandle

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(tuple):  # a named tuple without the cost of making one at import
    """The missing and the unexpected keys of a state dict."""

    __slots__ = ()
    _fields = ("missing_keys", "unexpected_keys")

    def __new__(cls, missing_keys: list[str], unexpected_keys: list[str]) -> _IncompatibleKeys:
        return tuple.__new__(cls, (missing_keys, unexpected_keys))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    @property
    def missing_keys(self) -> list[str]:
        return self[0]

    @property
    def unexpected_keys(self) -> list[str]:
        return self[1]

    def __repr__(self) -> str:
        if not self[0] and not self[1]:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self[0]!r}, unexpected_keys={self[1]!r})"

    __str__ = __repr__


class StateMethods(HookMethods):
    """The part of Module that deals with state dicts."""

    _version: int = 1
    if TYPE_CHECKING:
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]
        _modules: dict[str, Any]
        _non_persistent_buffers_set: set[str]
        _state_dict_hooks: dict[int, Any]
        _state_dict_pre_hooks: dict[int, Any]
        _load_state_dict_pre_hooks: dict[int, Any]
        _load_state_dict_post_hooks: dict[int, Any]

    def get_extra_state(self) -> Any:
        """What a module adds to its state dict beside tensors; override it with set_extra_state."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: a class "
            "that calls it must define it."
        )

    def set_extra_state(self, state: Any) -> None:
        """Takes back what ``get_extra_state`` gave; override both."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: a class "
            "that defines get_extra_state must define set_extra_state too."
        )

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(module, state_dict, prefix, local_metadata)``; the root's may return another."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return add(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata)`` after ``state_dict``."""
        hook._from_public_api = True
        return add(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, prefix, keep_vars)`` before ``state_dict``."""
        return add(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        wrapped = WrappedHook(hook, self if with_module else None)  # type: ignore[arg-type]
        return add(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`` before the module's own state is read."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, incompatible_keys)`` after loading; it may change the lists."""
        return add(self._load_state_dict_post_hooks, hook)

    def _hooks_if_any(self, name: str) -> list[Any]:
        return list(self.__dict__.get(name, {}).values())

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Writes the module's own state, without its children's."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Every parameter and persistent buffer under its qualified name.

        >>> import rushlight as torch
        >>> list(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()).state_dict())
        ['0.weight', '0.bias']
        """
        if args:
            import warnings

            warnings.warn(
                "Positional args are being deprecated, use kwargs instead: "
                "state_dict(destination=..., prefix=..., keep_vars=...)",
                FutureWarning,
                stacklevel=2,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given["destination"] if destination is None else destination
            prefix = prefix or given.get("prefix", "")
            keep_vars = keep_vars or given.get("keep_vars", False)
        if destination is None:
            from collections import OrderedDict

            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._hooks_if_any("_state_dict_pre_hooks"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._hooks_if_any("_state_dict_hooks"):
            result = hook(self, destination, prefix, local_metadata)
            if result is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = result
        return destination

    def _load_tensor(self, name: str, key: str, given: Any, assign: bool) -> str | None:
        """Puts one tensor into the module; the text says what is wrong."""
        param = self._parameters.get(name)
        if param is None:
            param = self._buffers[name]
        if not isinstance(given, Tensor) and not hasattr(type(given), "__torch_function__"):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(given)}"
            )
        lazy = is_lazy(param)
        if not lazy and param.dim() == 0 and tuple(given.shape) == (1,):
            given = given[0]
        if not lazy and given.shape != param.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from "
                f"checkpoint, the shape in current model is {param.shape}."
            )
        try:
            if not assign:
                if param.is_meta and not given.is_meta:
                    import warnings

                    warnings.warn(
                        f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                        "parameter in the current model, which is a no-op. (Did you mean to pass "
                        "`assign=True` to assign items in the state dictionary to their "
                        "corresponding key in the module instead of copying them in place?)",
                        stacklevel=2,
                    )
                param.copy_(given)
                return None
            if isinstance(param, Parameter):
                if not isinstance(given, Parameter):
                    given = Parameter(given, requires_grad=param.requires_grad)
                else:
                    given.requires_grad_(param.requires_grad)
            setattr(self, name, given)
        except Exception as error:
            action = "assigning" if assign else "copying"
            return (
                f'While {action} the parameter named "{key}", whose dimensions in the model are '
                f"{param.size()} and whose dimensions in the checkpoint are {given.size()}, an "
                f"exception occurred : {error.args}."
            )
        return None

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Reads the module's own state, without its children's."""
        for hook in self._hooks_if_any("_load_state_dict_pre_hooks"):
            hook(
                state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                error_msgs,
            )  # fmt: skip
        assign = local_metadata.get("assign_to_params_buffers", False)
        persistent = [n for n in self._buffers if n not in self._non_persistent_buffers_set]
        local = {**self._parameters, **{n: self._buffers[n] for n in persistent}}
        local = {name: value for name, value in local.items() if value is not None}
        for name in local:
            key = prefix + name
            if key in state_dict:
                with no_grad():
                    problem = self._load_tensor(name, key, state_dict[key], assign)
                if problem is not None:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        self._load_extra(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + _EXTRA_STATE_KEY_SUFFIX:
                    first, *rest = key[len(prefix) :].split(".", 1)
                    known = first in self._modules if rest else first in local
                    if not known:
                        unexpected_keys.append(key)

    def _load_extra(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
    ) -> None:
        key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateMethods.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies the tensors of a state dict into this module and its children.

        With ``strict`` the keys must match exactly. With ``assign`` the module takes the very
        tensors instead of copying into its own.
        """
        from collections import OrderedDict
        from collections.abc import Mapping

        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata
        _load(self, state, "", metadata, assign, (missing, unexpected, errors))
        if strict:
            for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    quoted = ", ".join(f'"{k}"' for k in keys)
                    errors.insert(0, f"{what} key(s) in state_dict: {quoted}. ")
        if errors:
            text = "\n\t".join(errors)
            error = RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{text}"
            )
            _suggest(error, missing, unexpected)
            raise error
        return _IncompatibleKeys(missing, unexpected)


def _load(
    module: Any,
    state: Any,
    prefix: str,
    metadata: Any,
    assign: bool,
    report: tuple[list[str], list[str], list[str]],
) -> None:
    """Loads a module and those below it; what does not fit goes to the report."""
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    module._load_from_state_dict(state, prefix, local_metadata, True, *report)
    below: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        if key.startswith(prefix):
            first = key[len(prefix) :].split(".", 1)[0]
            below.setdefault(first, {})[key] = value
    for name, child in module._modules.items():
        if child is not None:
            _load(child, below.get(name, {}), f"{prefix}{name}.", metadata, assign, report)
    for hook in module._hooks_if_any("_load_state_dict_post_hooks"):
        if hook(module, _IncompatibleKeys(*report[:2])) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                "expected to return new values, if incompatible_keys need to be modified, "
                "it should be done inplace."
            )


def _suggest(error: RuntimeError, missing: list[str], unexpected: list[str]) -> None:
    """A note on what makes the keys match, where a common prefix does."""
    for prefix in ("module.", "_orig_mod.", "model."):
        for have, want, fix in (
            (unexpected, missing, f"strip {prefix!r} from"),
            (missing, unexpected, f"put {prefix!r} before"),
        ):
            stripped = {k.removeprefix(prefix) for k in have if k.startswith(prefix)}
            if want and stripped >= set(want):
                error.add_note(f"Every missing key is there when you {fix} the keys.")
                return
