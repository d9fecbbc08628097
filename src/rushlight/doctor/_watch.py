"""Where the observer looks: what is replaced or hooked while a doctor is there."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight import _C
from rushlight.doctor._finding import is_ours, user_place

if TYPE_CHECKING:
    from rushlight.doctor._observer import Observer
    from rushlight.doctor._patches import Patches

Tensor = _C.Tensor


def install(observer: Observer, patches: Patches) -> None:
    """Sets all of it. Only what is called once in a step or so is replaced for the whole run."""
    _passes(observer, patches)
    _tensors(observer, patches)
    _blocks(observer, patches)
    _dropout(observer, patches)
    _optimizers(observer, patches)
    _scalers(observer, patches)
    _loaders(observer, patches)


def _passes(observer: Observer, patches: Patches) -> None:
    run_backward = _C._run_backward

    def of_tensor(native: Any) -> Any:
        def backward(
            self: Any,
            gradient: Any = None,
            retain_graph: Any = None,
            create_graph: Any = False,
            inputs: Any = None,
        ) -> Any:
            if not observer.watching:
                observer.passed()
                return native(self, gradient, retain_graph, create_graph, inputs)
            return observer.backward(
                lambda: native(self, gradient, retain_graph, create_graph, inputs),
                (self,), bool(retain_graph), bool(create_graph), inputs, True,
            )  # fmt: skip

        return backward

    def run(roots: Any, grads: Any, keep: Any, create: Any, inputs: Any, accumulate: Any) -> Any:
        if not observer.watching:
            observer.passed()
            return run_backward(roots, grads, keep, create, inputs, accumulate)
        return observer.backward(
            lambda: run_backward(roots, grads, keep, create, inputs, accumulate),
            roots, bool(keep), bool(create), inputs, bool(accumulate),
        )  # fmt: skip

    patches.wrap(Tensor, "backward", of_tensor)
    patches.set(_C, "_run_backward", run)


def _by_program(depth: int = 2) -> bool:
    return not is_ours(sys._getframe(depth))


def _tensors(observer: Observer, patches: Patches) -> None:
    def cutting(kind: str) -> Any:
        def make(native: Any) -> Any:
            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                if observer.watching and _by_program():
                    observer.cut(kind, self)
                return native(self, *args, **kwargs)

            return call

        return make

    def rounding(kind: str) -> Any:
        def make(native: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                result = native(*args, **kwargs)
                if observer.watching and args and isinstance(result, Tensor):
                    left = isinstance(args[0], Tensor) and args[0].requires_grad
                    left = left and not (result.is_floating_point() or result.is_complex())
                    if left and _by_program():
                        observer.cut(kind, args[0])
                return result

            return call

        return make

    def reading(kind: str) -> Any:
        def make(native: Any) -> Any:
            def call(self: Any) -> Any:
                if not observer.watching or not _by_program():
                    return native(self)
                observer.cut(kind, self)
                began = perf_counter()
                value = native(self)
                observer.read(self, perf_counter() - began)
                return value

            return call

        return make

    for name, shown in (("detach", "detach()"), ("numpy", ".numpy()"), ("detach_", "detach_()")):
        patches.wrap(Tensor, name, cutting(shown))
    for name in ("long", "int", "short", "char", "byte", "to", "type"):
        patches.wrap(Tensor, name, rounding("an integer cast"))
    for name in ("argmax", "argmin"):
        for owner in (Tensor, rushlight):
            patches.wrap(owner, name, rounding(f"{name}()"))
    for name in ("__gt__", "__ge__", "__lt__", "__le__"):
        patches.wrap(Tensor, name, rounding("a comparison"))
    for name, shown in (
        ("item", ".item()"), ("tolist", ".tolist()"), ("__float__", "float()"),
        ("__int__", "int()"), ("__bool__", "bool()"),
    ):  # fmt: skip
        patches.wrap(Tensor, name, reading(shown))
    native = vars(Tensor)["data"]

    def get_data(self: Any) -> Any:
        if observer.watching and _by_program():
            observer.cut(".data", self)
        return native.__get__(self, type(self))

    patches.set(Tensor, "data", property(get_data, native.__set__, doc=native.__doc__))


def _blocks(observer: Observer, patches: Patches) -> None:
    """Where a program stops recording it evaluates, most likely: that is worth a look."""
    from rushlight.autograd import inference_mode, no_grad
    from rushlight.nn import Module

    def entering(kind: Any) -> Any:
        inherited = kind.__enter__

        def __enter__(self: Any) -> Any:
            if not observer.watching and _by_program():
                observer.look()
            return inherited(self)

        return __enter__

    for kind in (no_grad, inference_mode):
        patches.add(kind, "__enter__", entering(kind))

    def make(native: Any) -> Any:
        def train(self: Any, mode: bool = True) -> Any:
            if not observer.watching and _by_program():
                observer.look()
            return native(self, mode)

        return train

    owner = next(kind for kind in Module.__mro__ if "train" in vars(kind))
    patches.wrap(owner, "train", make)


def _dropout(observer: Observer, patches: Patches) -> None:
    from rushlight.nn import functional

    def make(native: Any) -> Any:
        def dropout(*args: Any, **kwargs: Any) -> Any:
            # A mode that is given is meant, whichever it is.
            if len(args) < 3 and "training" not in kwargs and observer.sees() and _by_program():
                observer.dropped()
            return native(*args, **kwargs)

        return dropout

    patches.wrap(functional, "dropout", make)


def _optimizers(observer: Observer, patches: Patches) -> None:
    from rushlight.nn.utils import clip_grad
    from rushlight.optim import _lr_base, _stepped
    from rushlight.optim.optimizer import Optimizer

    def zeroing(native: Any) -> Any:
        def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
            native(self, *args, **kwargs)
            if observer.sees():
                observer.emit("on_zero_grad", self)

        return zero_grad

    def adding(native: Any) -> Any:
        def add_param_group(self: Any, param_group: Any) -> None:
            native(self, param_group)
            if not observer.absent():
                observer.emit("on_optimizer", self, user_place(2))

        return add_param_group

    def ordering(native: Any) -> Any:
        def check(optimizer: Any) -> None:
            if not observer.absent():
                observer.emit("on_scheduler", optimizer, user_place(2))
            native(optimizer)

        return check

    def clipping(native: Any) -> Any:
        def grads_of(parameters: Any) -> Any:
            grads = native(parameters)
            if observer.sees():
                observer.emit("on_clip", grads, user_place(2))
            return grads

        return grads_of

    def stepping(native: Any) -> Any:
        def core_step(*args: Any) -> Any:
            done = native(*args)
            if not observer.step_hooks and not observer.absent():
                observer.stepped()
            return done

        return core_step

    # Hooks of optimizers cost more than a small step: they are there only while watching.
    patches.set(_stepped, "_core_step", stepping(_stepped._core_step))
    patches.wrap(Optimizer, "zero_grad", zeroing)
    patches.wrap(Optimizer, "add_param_group", adding)
    patches.wrap(_lr_base, "_check_order", ordering)
    patches.wrap(clip_grad, "_grads_to_clip", clipping)


def _scalers(observer: Observer, patches: Patches) -> None:
    from rushlight.amp.grad_scaler import GradScaler

    def scaling(native: Any) -> Any:
        def scale(self: Any, outputs: Any) -> Any:
            scaled = native(self, outputs)
            if self._enabled and isinstance(scaled, Tensor) and observer.sees():
                observer.emit("on_scaled", self, outputs, scaled)
            return scaled

        return scale

    def unscaling(native: Any) -> Any:
        def unscale_(self: Any, optimizer: Any) -> Any:
            result = native(self, optimizer)
            if self._enabled and observer.sees():
                observer.emit("on_unscaled", self, optimizer)
            return result

        return unscale_

    def stepping(native: Any) -> Any:
        def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            seen = self._enabled and observer.sees()
            if seen:
                observer.emit("on_scaler_step", self, optimizer, user_place(2), None)
            try:
                return native(self, optimizer, *args, **kwargs)
            except (RuntimeError, AssertionError) as error:
                if seen:
                    observer.emit("on_scaler_step", self, optimizer, user_place(2), error)
                raise

        return step

    patches.wrap(GradScaler, "scale", scaling)
    patches.wrap(GradScaler, "unscale_", unscaling)
    patches.wrap(GradScaler, "step", stepping)


def _loaders(observer: Observer, patches: Patches) -> None:
    from rushlight.doctor import _workers
    from rushlight.utils.data import dataloader

    def iterating(native: Any) -> Any:
        def __iter__(self: Any) -> Any:
            observer.look()
            iterator = native(self)
            iterator._doctor_loader = self
            if not observer.absent():
                observer.emit("on_epoch", self, user_place(2))
            return iterator

        return __iter__

    def giving(native: Any) -> Any:
        def __next__(self: Any) -> Any:
            began = perf_counter()
            data = native(self)
            loader = getattr(self, "_doctor_loader", None)
            if loader is not None:
                observer.batch(loader, data, perf_counter() - began)
            return data

        return __next__

    patches.wrap(dataloader.DataLoader, "__iter__", iterating)
    patches.wrap(dataloader._BaseDataLoaderIter, "__next__", giving)
    _workers.install(patches)
