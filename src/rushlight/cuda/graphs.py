"""Recorded work of a CUDA device: a program's launches as one graph, launched again as a whole."""

from __future__ import annotations

import rushlight
from rushlight import _C
from rushlight.cuda import random
from rushlight.cuda._start import require
from rushlight.cuda.streams import Stream, current_stream, set_stream

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing",
    "make_graphed_callables",
]  # fmt: skip

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


def is_current_stream_capturing() -> bool:
    """Whether this thread's stream is being recorded for a graph.

    >>> import rushlight as torch
    >>> torch.cuda.is_current_stream_capturing()
    False
    """
    return _C._cuda_capturing()


def graph_pool_handle() -> tuple[int, int]:
    """The name of a new pool of memory, which graphs can share.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     pool = torch.cuda.graph_pool_handle()
    """
    require("graph_pool_handle")
    return (_C._cuda_pool_new(), 0)


class _Source:
    """A generator that a recording draws from: where it was, and how much is drawn."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.start = generator._raw_state()[1]
        self.drawn = 0

    def end(self) -> None:
        seed, offset = self.generator._raw_state()
        self.drawn = offset - self.start
        # Nothing was drawn yet: every replay does.
        self.generator._set_raw_state((seed, self.start))

    def now(self) -> tuple[int, int]:
        seed, offset = self.generator._raw_state()
        return seed, (offset - self.start) % 2**64

    def advance(self) -> None:
        if self.drawn:
            seed, offset = self.generator._raw_state()
            self.generator._set_raw_state((seed, offset + self.drawn))


class CUDAGraph:
    """Recorded work of a CUDA device.

    What a stream is given between ``capture_begin`` and ``capture_end`` is not run but recorded;
    ``replay`` runs it, on the same memory. ``with torch.cuda.graph(g):`` is the easy way to
    record. A whole training step can be recorded, the optimizer's included: each replay counts as
    a step, with the learning rate of that time, and draws new random numbers.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     x = torch.zeros(3, device="cuda")
    ...     g = torch.cuda.CUDAGraph()
    ...     with torch.cuda.graph(g):
    ...         y = x + 1
    ...     x.fill_(4)
    ...     g.replay()
    ...     assert y.tolist() == [5.0, 5.0, 5.0]
    """

    _handle = 0

    def __init__(self, keep_graph: bool = False) -> None:
        require("CUDAGraph", RuntimeError)
        self._handle = _C._cuda_graph_new()
        self._pool: tuple[int, int] | None = None
        self._registered: list[Any] = []
        self._sources: list[_Source] = []

    def __del__(self) -> None:
        if self._handle:
            _C._cuda_graph_delete(self._handle)

    def capture_begin(
        self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global"
    ) -> None:
        """Records what this thread's stream is given from now on."""
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got "
                + capture_error_mode
            )
        name = graph_pool_handle() if pool is None else pool
        _C._cuda_graph_begin(self._handle, name[0], _MODES[capture_error_mode])
        self._pool = name
        _C._clear_autocast_cache()  # casts made before lie in other memory
        self._sources = [_Source(g) for g in (random.generator_of(), *self._registered)]

    def capture_end(self) -> None:
        """Ends the recording; the graph can be replayed then."""
        for source in self._sources:
            source.end()
        _C._cuda_graph_end(self._handle)

    def instantiate(self) -> None:
        """Nothing is left to do: ``capture_end`` made the graph ready."""

    def replay(self) -> None:
        """Runs the recorded work on this thread's stream."""
        _C._cuda_graph_replay(self._handle, tuple(source.now() for source in self._sources))
        for source in self._sources:
            source.advance()

    def reset(self) -> None:
        """Forgets the recorded work and lets its memory go."""
        _C._cuda_graph_reset(self._handle)
        self._pool = None
        self._sources = []

    def pool(self) -> tuple[int, int]:
        """The pool of memory that its tensors lie in, for other graphs to share."""
        if self._pool is None:
            raise RuntimeError("CUDAGraph.pool(): nothing was recorded yet")
        return self._pool

    def register_generator_state(self, generator: Any) -> None:
        """The recording may draw from the generator: replays go on from where it is then.

        The device's default generator needs no registration.
        """
        if any(known is generator for known in self._registered):
            return
        _C._cuda_graph_register(self._handle, generator)
        self._registered.append(generator)

    def raw_cuda_graph(self) -> int:
        """The driver's handle of the graph."""
        return _C._cuda_graph_facts(self._handle)[2]

    def enable_debug_mode(self) -> None:
        """Nothing to do: ``debug_dump`` works at any time."""

    def debug_dump(self, debug_path: str) -> None:
        """Writes how many launches it has to a file."""
        nodes, draws, _ = _C._cuda_graph_facts(self._handle)
        with open(debug_path, "w") as file:
            file.write(f"// {nodes} nodes{', random numbers' if draws else ''}\n")


class graph:
    """``with graph(g):`` the work of the block is recorded in ``g``, on a stream of its own.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     x, g = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
    ...     with torch.cuda.graph(g):
    ...         y = x * 2
    ...     g.replay()
    """

    default_capture_stream: Stream | None = None
    _streams: dict[int, Stream] = {}  # noqa: RUF012 -- one for each device

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: tuple[int, int] | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        require("graph", RuntimeError)
        if stream is None:
            stream = graph._streams.get(_C._cuda_chosen()) or Stream()
            graph._streams[stream.device_index] = graph.default_capture_stream = stream
        self.capture_stream = stream
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        import gc

        _C._cuda_synchronize(_C._cuda_chosen())
        gc.collect()  # what is freed while recording must not be freed by the device
        _C._cuda_memory_empty()
        self._outer = current_stream()
        set_stream(self.capture_stream)
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            set_stream(self._outer)
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph.reset()
        finally:
            set_stream(self._outer)


def _flat(tree: Any) -> tuple[Any, ...]:
    from rushlight.utils._pytree import tree_leaves

    return tuple(tree_leaves(tree))


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:
    """Functions or modules whose forward and backward are graphs, in one shape of arguments.

    Give one callable and a tuple of sample arguments, or a tuple of each. The results take
    arguments like the samples; gradients flow through them. Modules stay modules: their forward
    is replaced.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     layer = torch.nn.Linear(4, 2).cuda()
    ...     fast = torch.cuda.make_graphed_callables(layer, (torch.randn(3, 4, device="cuda"),))
    """
    require("make_graphed_callables", RuntimeError)
    from rushlight.amp._state import is_autocast_enabled

    if is_autocast_enabled() and _C._is_autocast_cached():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set "
            "`cache_enabled=False`."
        )
    if not isinstance(callables, tuple):
        return make_graphed_callables(
            (callables,), (sample_args,), num_warmup_iters, allow_unused_input, pool
        )[0]
    if len(callables) != len(sample_args):
        raise ValueError(
            f"make_graphed_callables: {len(callables)} callables, but {len(sample_args)} samples"
        )
    name = graph_pool_handle() if pool is None else pool
    made = [
        _Graphed(f, args if isinstance(args, tuple) else (args,), num_warmup_iters,
                 allow_unused_input, name)
        for f, args in zip(callables, sample_args, strict=True)
    ]  # fmt: skip
    for one in made:
        one.record_forward()
    for one in reversed(made):  # the order in which they run, so that they share memory
        one.record_backward()
    return tuple(one.result() for one in made)


class _Graphed:
    """One callable of ``make_graphed_callables``."""

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...], warmups: int, unused: bool, pool: Any
    ) -> None:
        from rushlight import nn
        from rushlight.utils._pytree import tree_flatten

        self.f, self.unused, self.pool = f, unused, pool
        self.module = f if isinstance(f, nn.Module) else None
        leaves, self.in_spec = tree_flatten(args)
        if not all(isinstance(t, _C.Tensor) for t in leaves):
            raise TypeError("make_graphed_callables: sample arguments must be tensors")
        if self.module is not None:
            if any(b.requires_grad for b in self.module.buffers()):
                raise RuntimeError("make_graphed_callables: buffers must not require gradients")
            if self.module._forward_hooks or self.module._forward_pre_hooks:
                raise RuntimeError("make_graphed_callables: modules must not have hooks yet")
        parameters = tuple(self.module.parameters()) if self.module is not None else ()
        self.args = args
        self.count = len(leaves)
        self.inputs = (*leaves, *parameters)
        self.forward, self.backward = CUDAGraph(), CUDAGraph()
        stream = Stream()
        stream.wait_stream(current_stream())
        with stream:
            for _ in range(warmups):
                outputs = [o for o in _flat(f(*args)) if o.requires_grad]
                if outputs:
                    self._gradients(outputs, [rushlight.ones_like(o) for o in outputs])
        current_stream().wait_stream(stream)

    def _gradients(self, outputs: Any, grads: Any) -> tuple[Any, ...]:
        from rushlight import autograd

        return autograd.grad(
            outputs, [t for t in self.inputs if t.requires_grad], grads, allow_unused=self.unused
        )

    def record_forward(self) -> None:
        """The graph of the forward, and its results."""
        from rushlight.utils._pytree import tree_flatten

        with graph(self.forward, pool=self.pool):
            outputs = self.f(*self.args)
        self.outputs, self.out_spec = tree_flatten(outputs)

    def record_backward(self) -> None:
        """The graph of the backward: from static gradients of the results."""
        wanted = [o for o in self.outputs if o.requires_grad]
        self.grads_in = [rushlight.empty_like(o) for o in wanted]
        self.grads: list[Any] = [None] * len(self.inputs)
        if not wanted:
            return
        with graph(self.backward, pool=self.pool):
            found = iter(self._gradients(wanted, self.grads_in))
        self.grads = [next(found) if t.requires_grad else None for t in self.inputs]

    def result(self) -> Any:
        """The callable that runs the graphs."""
        from rushlight.autograd import Function
        from rushlight.utils._pytree import tree_flatten, tree_unflatten

        whole = self

        class Graphed(Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                for ours, theirs in zip(whole.inputs[: whole.count], inputs, strict=False):
                    if ours.data_ptr() != theirs.data_ptr():
                        ours.detach().copy_(theirs)
                whole.forward.replay()
                return tuple(o.detach() for o in whole.outputs)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                given = (g for o, g in zip(whole.outputs, grads, strict=True) if o.requires_grad)
                for ours, theirs in zip(whole.grads_in, given, strict=True):
                    if theirs is not None and ours.data_ptr() != theirs.data_ptr():
                        ours.copy_(theirs)
                whole.backward.replay()
                return tuple(g.detach() if g is not None else None for g in whole.grads)

        def call(*args: Any) -> Any:
            leaves, _ = tree_flatten(args)
            out = Graphed.apply(*leaves, *whole.inputs[whole.count :])
            return tree_unflatten(list(out), whole.out_spec)

        if self.module is None:
            return call
        module, plain, training = self.module, self.module.forward, self.module.training

        def forward(*args: Any, **kwargs: Any) -> Any:
            # The graphs are those of the mode that was on.
            return call(*args, **kwargs) if module.training == training else plain(*args, **kwargs)

        module.forward = forward  # type: ignore[method-assign]
        return module
