"""no_grad, inference_mode and autocast belong to the context (contextvars) that entered them."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import rushlight as torch
from support import leaf


def state():
    """What operations do, not only what the switches say."""
    x = torch.ones(1, 1, requires_grad=True)
    y = x * 2
    return y.requires_grad, y.is_inference(), (x @ x).dtype


PLAIN = (True, False, torch.float32)
MODES = {
    "no_grad": (torch.no_grad, (False, False, torch.float32)),
    "inference_mode": (torch.inference_mode, (False, True, torch.float32)),
    "autocast": (lambda: torch.autocast("cpu", torch.float16), (True, False, torch.float16)),
    "set_grad_enabled": (
        lambda: torch.set_grad_enabled(False),
        (False, False, torch.float32),
    ),
}
every_mode = pytest.mark.parametrize(("mode", "inside"), MODES.values(), ids=MODES)


@pytest.fixture(autouse=True)
def _undone():
    yield
    assert state() == PLAIN


def in_thread(f):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(f).result()


@every_mode
class TestEveryMode:
    def test_a_copied_context_takes_it_to_another_thread(self, mode, inside):
        with mode():
            context = contextvars.copy_context()
        assert in_thread(lambda: (state(), context.run(state), state())) == (PLAIN, inside, PLAIN)
        assert context.run(state) == inside

    def test_a_thread_of_its_own_does_not_inherit_it(self, mode, inside):
        with mode():
            assert in_thread(state) == PLAIN
            assert state() == inside

    def test_to_thread_does(self, mode, inside):
        async def main():
            with mode():
                return await asyncio.to_thread(state)

        assert asyncio.run(main()) == inside

    def test_tasks_do_not_see_the_modes_of_others(self, mode, inside):
        async def within(log):
            with mode():
                for _ in range(3):
                    log.append(state())
                    await asyncio.sleep(0)
            log.append(state())

        async def without(log):
            for _ in range(4):
                log.append(state())
                await asyncio.sleep(0)

        async def main():
            logs = [], []
            await asyncio.gather(within(logs[0]), without(logs[1]))
            return logs

        first, second = asyncio.run(main())
        assert first == [inside] * 3 + [PLAIN]
        assert second == [PLAIN] * 4

    def test_a_task_starts_with_the_modes_of_its_maker(self, mode, inside):
        async def child():
            await asyncio.sleep(0)
            return state()

        async def main():
            with mode():
                task = asyncio.create_task(child())
            return await task, state()

        assert asyncio.run(main()) == (inside, PLAIN)

    def test_what_a_context_leaves_behind_stays_in_it(self, mode, inside):
        entered = mode()
        context = contextvars.copy_context()
        if isinstance(entered, torch.set_grad_enabled):
            torch.set_grad_enabled(True)
        context.run(entered.__enter__)
        assert state() == PLAIN
        assert context.run(state) == inside
        context.run(entered.__exit__, None, None, None)
        assert context.run(state) == PLAIN


def test_modes_nest_across_contexts():
    def inner():
        with torch.enable_grad():
            seen = [state()]
        return [*seen, state()]

    with torch.no_grad():
        recorded, outer = contextvars.copy_context().run(inner)
        assert (recorded, outer) == (PLAIN, (False, False, torch.float32))
        assert not torch.is_grad_enabled()


def test_switches_are_those_of_the_context():
    with torch.inference_mode(), torch.autocast("cpu", torch.float16):
        context = contextvars.copy_context()
    switches = [
        torch.is_inference_mode_enabled,
        lambda: torch.is_autocast_enabled("cpu"),
        lambda: torch.get_autocast_dtype("cpu") is torch.float16,
    ]
    for switch in switches:
        assert not switch()
        assert context.run(switch)
        assert not switch()


class TestOnceAndForAll:
    """set_grad_enabled(False) without a block holds for the thread, as it always has."""

    def test_it_reaches_contexts_without_modes_of_their_own(self):
        before = contextvars.copy_context()
        torch.set_grad_enabled(False)
        try:
            assert not before.run(torch.is_grad_enabled)
            assert not contextvars.copy_context().run(torch.is_grad_enabled)
            assert in_thread(torch.is_grad_enabled)
        finally:
            torch.set_grad_enabled(True)
        assert before.run(torch.is_grad_enabled)

    def test_also_from_within_a_context(self):
        contextvars.copy_context().run(torch.set_grad_enabled, False)
        try:
            assert not torch.is_grad_enabled()
        finally:
            torch.set_grad_enabled(True)

    def test_a_block_does_not(self):
        other = contextvars.Context()
        with torch.set_grad_enabled(False):
            assert other.run(torch.is_grad_enabled)

    def test_within_a_block(self):
        with torch.no_grad():
            torch.set_grad_enabled(True)
            assert torch.is_grad_enabled()
        assert torch.is_grad_enabled()


class TestInsideTheEngine:
    """A context entered and left by a hook or a Function does not change the pass around it."""

    def run(self, f):
        return contextvars.copy_context().run(f)

    def test_forward_and_backward_of_a_function(self):
        seen = []

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                seen.append((torch.is_grad_enabled(), self.run(torch.is_grad_enabled)))
                with torch.enable_grad():
                    seen.append(torch.is_grad_enabled())
                seen.append(torch.is_grad_enabled())
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                self.run(torch.is_grad_enabled)
                with torch.enable_grad():
                    self.run(torch.is_grad_enabled)
                seen.append(torch.is_grad_enabled())
                return 2 * g * ctx.saved_tensors[0]

        x = leaf([3.0])
        y = Square.apply(x)
        assert torch.is_grad_enabled()
        y.sum().backward()
        assert x.grad.tolist() == [6]
        assert not x.grad.requires_grad
        assert seen == [(False, False), True, False, False]
        assert contextvars.copy_context().run(torch.is_grad_enabled)

    def test_hooks(self):
        x = leaf([3.0])
        y = x * x

        def hook(g):
            with torch.no_grad():
                self.run(lambda: None)
            return g * 2

        y.register_hook(hook)
        y.sum().backward()
        assert x.grad.tolist() == [12]
        assert state() == PLAIN


def test_many_threads_and_contexts_at_once():
    with torch.no_grad():
        off = contextvars.copy_context()
    wrong = []

    def work():
        mine = off.copy()
        for _ in range(300):
            if mine.run(torch.is_grad_enabled) or not torch.is_grad_enabled():
                wrong.append(1)
            with torch.inference_mode():
                if not mine.copy().run(lambda: not torch.is_grad_enabled()):
                    wrong.append(2)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_blocks_inside_a_backward_pass_are_not_the_contexts():
    """A hook runs in the modes of the pass; what it enters and leaves there stays there."""

    def hook(grad):
        with torch.enable_grad(), torch.autocast("cpu", torch.float16):
            assert (torch.ones(1, 1) @ torch.ones(1, 1)).dtype == torch.float16

    x = leaf([1.0])
    x.register_hook(hook)
    (x * 2).sum().backward()
    assert state() == PLAIN
    assert contextvars.copy_context().run(state) == PLAIN
    with torch.no_grad():
        context = contextvars.copy_context()
    assert in_thread(lambda: context.run(state)) == (False, False, torch.float32)
