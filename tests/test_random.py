"""Random numbers: reproducible, the same for any number of threads, and of the right shape."""

import math
import random

import numpy as np
import pytest

import rushlight as torch
from support import leaf, values

DRAWS = {
    "rand": lambda g: torch.rand(1000, generator=g),
    "randn": lambda g: torch.randn(1000, generator=g),
    "randint": lambda g: torch.randint(-5, 100, (1000,), generator=g),
    "randperm": lambda g: torch.randperm(1000, generator=g),
    "bernoulli": lambda g: torch.bernoulli(torch.full((1000,), 0.3), generator=g),
    "multinomial": lambda g: torch.multinomial(torch.arange(1.0, 50), 20, generator=g),
    "normal_": lambda g: torch.empty(1000).normal_(2, 3, generator=g),
    "uniform_": lambda g: torch.empty(1000).uniform_(-1, 4, generator=g),
    "normal": lambda g: torch.normal(torch.zeros(1000), 2.0, generator=g),
    "float64": lambda g: torch.rand(999, dtype=torch.float64, generator=g),
}


class TestReproducibility:
    @pytest.mark.parametrize("name", DRAWS)
    def test_the_same_seed_gives_the_same_numbers(self, name):
        a, b = torch.Generator(), torch.Generator()
        a.manual_seed(7)
        b.manual_seed(7)
        first = DRAWS[name](a)
        assert first.tolist() == DRAWS[name](b).tolist()
        assert first.tolist() != DRAWS[name](a).tolist()
        b.manual_seed(8)
        assert first.tolist() != DRAWS[name](b).tolist()

    @pytest.mark.parametrize("name", DRAWS)
    def test_the_default_generator_follows_manual_seed(self, name):
        torch.manual_seed(3)
        first = DRAWS[name](None).tolist()
        torch.manual_seed(3)
        assert DRAWS[name](None).tolist() == first

    @pytest.mark.parametrize("name", DRAWS)
    def test_the_numbers_do_not_depend_on_the_thread_count(self, name):
        before = torch.get_num_threads()
        results = []
        try:
            for threads in (1, 2):
                torch.set_num_threads(threads)
                torch.manual_seed(11)
                results.append([DRAWS[name](None).tolist(), torch.rand(100_000).tolist()])
        finally:
            torch.set_num_threads(before)
        assert results[0] == results[1]

    def test_state_can_be_saved_and_restored(self):
        g = torch.Generator().manual_seed(1)
        torch.rand(7, generator=g)
        state = g.get_state()
        first = torch.randn(5, generator=g).tolist()
        assert g.set_state(state) is g
        assert torch.randn(5, generator=g).tolist() == first
        default = torch.get_rng_state()
        first = torch.rand(5).tolist()
        torch.set_rng_state(default)
        assert torch.rand(5).tolist() == first

    def test_a_wrong_state_is_refused(self):
        g = torch.Generator()
        for bad in (torch.zeros(3), torch.zeros(3, dtype=torch.uint8), "x"):
            with pytest.raises((RuntimeError, TypeError)):
                g.set_state(bad)
        assert torch.rand(1, generator=g).shape == (1,)

    def test_generators_are_independent(self):
        a = torch.Generator().manual_seed(5)
        first = torch.rand(3, generator=a).tolist()
        a.manual_seed(5)
        torch.rand(100)
        torch.rand(100, generator=torch.Generator())
        assert torch.rand(3, generator=a).tolist() == first

    def test_seeds_are_reported(self):
        g = torch.Generator().manual_seed(99)
        assert g.initial_seed() == 99
        torch.manual_seed(123)
        assert torch.initial_seed() == 123
        assert isinstance(g.seed(), int)
        assert torch.manual_seed(1) is torch.default_generator

    def test_views_and_layouts_fill_in_logical_order(self):
        torch.manual_seed(0)
        flat = torch.empty(12).uniform_()
        torch.manual_seed(0)
        t = torch.empty(4, 3)
        assert t.uniform_().flatten().tolist() == flat.tolist()

    def test_the_global_python_generator_is_left_alone(self):
        random.seed(0)
        expected = random.random()
        random.seed(0)
        torch.rand(10)
        assert random.random() == expected


class TestDistributions:
    n = 200_000

    def setup_method(self):
        torch.manual_seed(0)

    def moments(self, t):
        a = values(t).astype(np.float64)
        return a.mean(), a.std()

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_rand(self, dtype):
        t = torch.rand(self.n, dtype=dtype)
        mean, std = self.moments(t)
        assert t.dtype == dtype
        assert t.min().item() >= 0
        assert t.max().item() < 1
        assert abs(mean - 0.5) < 0.005
        assert abs(std - 12**-0.5) < 0.005

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_rand_stays_below_one(self, dtype):
        t = torch.rand(self.n, dtype=dtype)
        assert t.max().item() < 1
        assert t.min().item() >= 0

    def test_randn(self):
        a = values(torch.randn(self.n)).astype(np.float64)
        assert abs(a.mean()) < 0.01
        assert abs(a.std() - 1) < 0.01
        assert abs((a**3).mean()) < 0.05
        assert abs((a**4).mean() - 3) < 0.1
        assert abs(np.mean(np.abs(a) < 1) - math.erf(0.5**0.5)) < 0.005
        assert abs(np.corrcoef(a[:-1], a[1:])[0, 1]) < 0.01

    def test_normal_and_uniform(self):
        mean, std = self.moments(torch.empty(self.n).normal_(3, 2))
        assert abs(mean - 3) < 0.02
        assert abs(std - 2) < 0.02
        mean, std = self.moments(torch.empty(self.n).uniform_(-2, 6))
        assert abs(mean - 2) < 0.03
        assert abs(std - 8 / 12**0.5) < 0.03
        assert torch.normal(0.0, 1.0, (2, 3)).shape == (2, 3)
        assert torch.normal(torch.zeros(3), torch.ones(3)).shape == (3,)

    def test_randint_covers_its_range_evenly(self):
        counts = np.bincount(values(torch.randint(0, 8, (80_000,))), minlength=8)
        assert len(counts) == 8
        assert counts.min() > 9_500
        assert counts.max() < 10_500
        assert torch.randint(5, (2,)).dtype == torch.int64
        assert torch.randint(0, 5, (2,), dtype=torch.uint8).dtype == torch.uint8
        assert torch.randint_like(torch.zeros(3), 5).dtype == torch.float32

    def test_random_up_to_the_largest_integer(self):
        """As a float it is a number that int64 has not, which processors convert in two ways."""
        known = {
            torch.float32: [3680554151084818432, 8967342507989925888],
            torch.float64: [3680554060633924096, 8967342311199014912],
        }
        for dtype, expected in known.items():
            torch.manual_seed(0)
            assert torch.empty(2, dtype=dtype).random_(0, 2**63 - 1).tolist() == expected

    def test_randperm_is_a_permutation(self):
        for n in (0, 1, 2, 1000):
            assert sorted(torch.randperm(n).tolist()) == list(range(n))
        starts = {tuple(torch.randperm(3).tolist()) for _ in range(200)}
        assert len(starts) == 6

    def test_bernoulli(self):
        t = torch.bernoulli(torch.full((self.n,), 0.3))
        assert set(t.tolist()) == {0.0, 1.0}
        assert abs(t.mean().item() - 0.3) < 0.005
        assert torch.bernoulli(torch.tensor([0.0, 1.0])).tolist() == [0, 1]
        assert torch.empty(1000).bernoulli_(1.0).sum().item() == 1000

    def test_multinomial(self):
        weights = torch.tensor([1.0, 0.0, 3.0])
        drawn = torch.multinomial(weights, 40_000, replacement=True)
        counts = np.bincount(values(drawn), minlength=3)
        assert counts[1] == 0
        assert abs(counts[2] / 40_000 - 0.75) < 0.01
        assert sorted(torch.multinomial(torch.ones(6), 6).tolist()) == list(range(6))
        assert torch.multinomial(torch.ones(4, 3), 2).shape == (4, 2)

    def test_like_forms(self):
        x = torch.zeros(2, 3, dtype=torch.float64)
        assert torch.rand_like(x).dtype == torch.randn_like(x).dtype == torch.float64
        assert torch.rand(2, 3, requires_grad=True).requires_grad
        assert torch.randn((2, 0)).shape == (2, 0)

    def test_samples_carry_no_gradient(self):
        p = leaf([0.5, 0.5])
        assert not torch.rand_like(p).requires_grad
        assert not torch.multinomial(p, 1).requires_grad


ERRORS = [
    (lambda: torch.randint(5, 5, (2,)), RuntimeError),
    (lambda: torch.randint(5, 1, (2,)), RuntimeError),
    (lambda: torch.randperm(-1), RuntimeError),
    (lambda: torch.bernoulli(torch.tensor([1.5])), RuntimeError),
    (lambda: torch.bernoulli(torch.tensor([1])), RuntimeError),
    (lambda: torch.multinomial(torch.tensor([1.0, -1.0]), 1), RuntimeError),
    (lambda: torch.multinomial(torch.zeros(3), 1), RuntimeError),
    (lambda: torch.multinomial(torch.ones(3), 4), RuntimeError),
    (lambda: torch.multinomial(torch.ones(3), 0), RuntimeError),
    (lambda: torch.empty(2).normal_(0, -1), RuntimeError),
    (lambda: torch.empty(2).uniform_(2, 1), RuntimeError),
    (lambda: torch.rand(2, dtype=torch.int64), RuntimeError),
    (lambda: torch.randn(2, dtype=torch.int64), RuntimeError),
    (lambda: torch.rand(2, generator=3), TypeError),
    (lambda: torch.manual_seed("x"), (ValueError, TypeError, RuntimeError)),
]


@pytest.mark.parametrize(("bad", "error"), ERRORS)
def test_wrong_arguments_raise(bad, error):
    with pytest.raises(error):
        bad()


class TestTorchStreams:
    """PyTorch's engine in place of the counter; tests/oracle compares its numbers."""

    @pytest.mark.parametrize("name", DRAWS)
    def test_seeds_and_states_fix_the_numbers(self, name):
        with torch.random.torch_streams():
            g = torch.Generator().manual_seed(7)
            first = DRAWS[name](g).tolist()
            state = g.get_state()
            second = DRAWS[name](g).tolist()
            assert first != second
            g.set_state(state)
            assert DRAWS[name](g).tolist() == second
            assert DRAWS[name](g.manual_seed(7)).tolist() == first

    def test_known_numbers(self):
        with torch.random.torch_streams():
            torch.manual_seed(0)
            assert torch.rand(2).tolist() == [0.49625658988952637, 0.7682217955589294]
            g = torch.Generator().manual_seed(0)
            assert torch.randperm(5, generator=g).tolist() == [4, 0, 1, 3, 2]

    def test_only_the_block_is_affected(self):
        torch.manual_seed(3)
        expected = torch.rand(4).tolist()
        torch.manual_seed(3)
        with torch.random.torch_streams():
            outside = torch.Generator()
            assert torch.rand(4).tolist() != expected
        assert torch.rand(4).tolist() == expected
        assert outside._torch  # made inside, it keeps its engine
        assert not torch.Generator()._torch

    def test_foreign_bytes_are_refused(self):
        g = torch.Generator()
        for size in (15, 17, 5055):
            with pytest.raises(RuntimeError, match="wrong size"):
                g.set_state(torch.zeros(size, dtype=torch.uint8))
        with pytest.raises(RuntimeError, match="no state"):
            g.set_state(torch.full((5056,), 255, dtype=torch.uint8))
        assert torch.rand(1, generator=g).shape == (1,)
