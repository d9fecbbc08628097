"""Ctrl-C at any moment leaves every mode, region and swapped parameter as it was.

The interruption is raised by a trace function before an instruction of the package's own Python
code, before each of them in turn; then at random moments, by signals.
"""

import gc
import os
import random
import signal
import sys
import threading
import time

import pytest

import rushlight as torch
from rushlight import _C, func, nn
from rushlight._program import record
from rushlight.autograd import forward_ad, graph
from rushlight.autograd.profiler import profile, record_function
from rushlight.nn.utils import parametrize, stateless
from rushlight.overrides import TorchFunctionMode
from rushlight.utils.checkpoint import (
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

FOLDER = os.path.dirname(torch.__file__)
MODEL = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
LINEAR = nn.Linear(2, 2)
OTHER = {name: p.detach() * 2 for name, p in LINEAR.named_parameters()}
NORMED = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
GENERATOR = torch.Generator().manual_seed(5)


def points():
    return torch.ones(4, 2, requires_grad=True)


class Passing(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def modes():
    x = points()
    with torch.no_grad(), torch.enable_grad(), torch.set_grad_enabled(False):
        x * 2
    with torch.inference_mode():
        x * 2
    with torch.autograd.strict(), torch.autograd.set_detect_anomaly(True):
        (x * 2).sum().backward()
    with torch.autograd.enforce_grad_layout_policy(False), Passing():
        (x * 2).sum().backward()


def decorated():
    @torch.no_grad()
    def numbers():
        yield torch.ones(1) * 2
        yield torch.ones(1) * 3

    list(numbers())
    torch.inference_mode()(lambda: torch.ones(1) * 2)()


def mixed_precision():
    with torch.autocast("cpu"):
        MODEL(points()).sum().backward()
        with torch.autocast("cpu", enabled=False):
            MODEL(points())


def hooks_on_saved_tensors():
    x = points()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t), graph.save_on_cpu():
        y = (x * x).sum()
    with graph.node_creation_hook(lambda node: None), graph.allow_mutation_on_saved_tensors():
        z = (x * x).sum()
    with graph.disable_saved_tensors_hooks("no"):
        (y + z).backward()


def transforms():
    x = torch.ones(2)
    func.grad(lambda t: func.grad(lambda u: (u * u * t).sum())(t).sum())(x)
    func.vmap(func.grad(torch.sin))(x)
    func.jvp(torch.sin, (x,), (x,))
    func.jacrev(torch.sin)(x)
    func.jacfwd(torch.sin)(x)


def forward_mode():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with forward_ad._set_fwd_grad_enabled(False):
            dual * 2
        forward_ad.unpack_dual(dual * dual)


def profiled():
    with profile(record_shapes=True), record_function("block"):
        (points() * 2).sum().backward()


def traced_for_nan():
    with torch.autograd.trace_nan():
        (points() * 2).sum().backward()


def swapped_parameters():
    func.functional_call(LINEAR, OTHER, (points(),))
    stateless._functional_call(LINEAR, dict(OTHER), (points(),))
    with parametrize.cached():
        NORMED(points())


def checkpointed():
    def block(x):
        return MODEL(nn.functional.dropout(x, 0.5)) * torch.rand(1, generator=GENERATOR)

    x = points()
    checkpoint(lambda t: checkpoint(block, t * 2), x).sum().backward()


def checkpointed_to_the_end():
    with set_checkpoint_early_stop(False), torch.autocast("cpu"):
        y = checkpoint(MODEL, points())
    y.sum().backward()


def checkpointed_with_a_policy():
    def contexts():
        return create_selective_checkpoint_contexts([torch.tanh])

    checkpoint(MODEL, points(), context_fn=contexts).sum().backward()
    checkpoint(MODEL, points(), memory_budget=0.5).sum().backward()


def recorded():
    record(lambda x: MODEL(x).sum(), torch.ones(4, 2))(torch.ones(4, 2))
    torch.ones(1).item()  # refused while something is recorded


def other_settings():
    with torch.random.fork_rng(), torch.backends.mkldnn.flags(enabled=False):
        torch.rand(2)
    with torch.backends.cuda.sdp_kernel(enable_flash=False):
        pass
    repr(points())


SCENARIOS = [
    modes,
    recorded,
    decorated,
    mixed_precision,
    hooks_on_saved_tensors,
    transforms,
    forward_mode,
    profiled,
    traced_for_nan,
    swapped_parameters,
    checkpointed,
    checkpointed_to_the_end,
    checkpointed_with_a_policy,
    other_settings,
]


def state():
    """All that a block may set, as seen from outside."""
    modules = (MODEL, LINEAR, NORMED)
    return (
        _C._mode_state(),
        [id(p) for module in modules for p in module.parameters()],
        [sorted(module.__dict__) for module in modules],
        parametrize._cache_depth,
        torch.backends.mkldnn.enabled,
        torch.backends.cuda.flash_sdp_enabled(),
        dict(torch.utils.checkpoint._checkpoint._overrides),
        _C._profile_running(),
    )


def run_interrupted(scenario, at):
    """Runs it with an interruption before the `at`-th instruction; how many there were."""
    count = 0

    def before_instruction(frame, event, arg):
        nonlocal count
        if event == "opcode":
            count += 1
            if count == at:
                raise KeyboardInterrupt
        return before_instruction

    def on_call(frame, event, arg):
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        frame.f_trace_opcodes = True
        return before_instruction

    previous = sys.gettrace()
    sys.settrace(on_call)
    try:
        scenario()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(previous)
    return count


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_an_interruption_before_any_instruction_changes_nothing(scenario):
    scenario()  # imports and caches
    before = state()
    run_interrupted(scenario, 0)  # from CPython 3.12 on, the first one turns the events on
    total = run_interrupted(scenario, 0)
    assert total > 20
    most = 400
    chosen = range(1, total + 1)
    if total > most:
        chosen = sorted(random.Random(0).sample(chosen, most))
    for at in chosen:
        run_interrupted(scenario, at)
        assert state() == before, f"{scenario.__name__}, instruction {at} of {total}"
    scenario()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_signals_at_random_moments_change_nothing(scenario):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread")
    draw = random.Random(1)
    scenario()
    before = state()
    began = time.perf_counter()
    scenario()
    length = time.perf_counter() - began

    def interrupt(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(100):
            try:
                moment = max(draw.random() * length, 1e-6)
                signal.setitimer(signal.ITIMER_REAL, moment)
                scenario()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert state() == before
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    gc.collect()
    scenario()


def test_a_model_works_after_an_interrupted_checkpoint():
    x = points()
    y = checkpoint(MODEL, x).sum()
    total = run_interrupted(lambda: y.backward(retain_graph=True), 0)
    for at in range(1, total + 1, max(total // 50, 1)):
        x.grad = None
        run_interrupted(lambda: y.backward(retain_graph=True), at)
        assert MODEL(points()).requires_grad
    x.grad = None
    y.backward()
    wanted = points()
    MODEL(wanted).sum().backward()
    assert torch.equal(x.grad, wanted.grad)


def test_a_mode_entered_by_hand_lasts():
    torch.no_grad().__enter__()
    gc.collect()
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert torch.is_grad_enabled()
