"""Tensors of the device meta: every op says of them what it says of tensors with elements."""

import copy
import io
import pickle
import threading

import pytest

import rushlight as torch
from registry import ENTRIES, path, sample_makers
from rushlight import nn
from samples import DIFFERENTIATED, function

DTYPES = [torch.float32, torch.int64, torch.bool, torch.complex64]
# Ops whose result's shape is in the elements of an argument, always or for some arguments: masks,
# counts, lengths of sequences, places to split at.
ALWAYS = {"argwhere", "masked_select", "nonzero", "unique", "unique_consecutive"}
SOMETIMES = {
    "Tensor.__getitem__", "bincount", "equal", "gru", "index_put", "lstm", "nn.functional.one_hot",
    "repeat_interleave", "rnn_relu", "rnn_tanh", "tensor_split",
}  # fmt: skip
IN_GRADIENTS = {"masked_scatter"}  # that of the source is a masked_select
NO_DATA = r"meta tensor"


def shadow(t):
    """A meta tensor with the facts of t: its layout, its place in its storage, its view-ness."""
    if not isinstance(t, torch.Tensor):
        return t
    room = t.untyped_storage().nbytes() // t.element_size()
    flat = torch.empty(room, dtype=t.dtype, device="meta")
    return flat.as_strided(t.shape, t.stride(), t.storage_offset())


def shadows(value):
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(map(shadows, value))
    return shadow(value)


def facts(result):
    """What both must agree on."""
    if isinstance(result, torch.Tensor):
        return (tuple(result.shape), result.stride(), result.dtype, result.storage_offset())
    if isinstance(result, (tuple, list)):
        return tuple(map(facts, result))
    return type(result)


def outcome(f, args, kwargs):
    try:
        return f(*args, **kwargs), None
    except Exception as error:
        return None, error


def places(result):
    if isinstance(result, torch.Tensor):
        yield result.device.type
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from places(part)


def compare(name, f, sample):
    """Whether it ran on both; raises where they differ."""
    args, kwargs = sample
    ours, error = outcome(f, shadows(args), {k: shadows(v) for k, v in kwargs.items()})
    theirs, wanted = outcome(f, args, kwargs)
    if name in ALWAYS | SOMETIMES and error is not None and wanted is None:
        assert isinstance(error, NotImplementedError)
        assert "meta tensor" in str(error)
        return False
    if wanted is not None:
        assert type(error) is type(wanted), f"{wanted!r} on the CPU, {error!r} on meta"
        return False
    if error is not None:
        raise error
    assert facts(ours) == facts(theirs)
    has_tensors = any(isinstance(a, torch.Tensor) for a in flat(args))
    assert not has_tensors or set(places(ours)) <= {"meta"}
    return True


def flat(values):
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from flat(value)
        else:
            yield value


def drawn(make, dtype):
    """The samples; none of a dtype that they cannot be made of."""
    try:
        return list(make(dtype, 0))
    except RuntimeError:
        assert dtype.is_complex
        return []


CASES = list(sample_makers())
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(CASES)]


@pytest.mark.parametrize(("name", "make"), CASES, ids=IDS)
def test_results_have_the_facts_of_the_cpu(name, make):
    f = function(name)
    ran = [compare(name, f, sample) for dtype in DTYPES for sample in drawn(make, dtype)]
    assert any(ran) != (name in ALWAYS)


def leaves(values):
    return [
        v for v in flat(values)
        if isinstance(v, torch.Tensor) and (v.is_floating_point() or v.is_complex())
    ]  # fmt: skip


def total(result):
    """A number that every differentiable part of the result takes part in."""
    parts = [t for t in flat([result]) if isinstance(t, torch.Tensor) and t.requires_grad]
    parts = [torch.view_as_real(t) if t.is_complex() else t for t in parts]
    return (
        sum((t.sum() for t in parts), start=torch.zeros((), device=parts[0].device))
        if (parts)
        else None
    )


def gradients(f, args, kwargs):
    tensors = leaves([args, list(kwargs.values())])
    for t in tensors:
        t.requires_grad_()
    try:
        loss = total(f(*args, **kwargs))
        if loss is None or not loss.requires_grad:
            return None
        return facts(torch.autograd.grad(loss, tensors, allow_unused=True))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(("name", "make"), CASES, ids=IDS)
def test_gradients_have_the_facts_of_the_cpu(name, make):
    f = DIFFERENTIATED.get(name, lambda op: op)(function(name))
    for args, kwargs in make(torch.float32, 0):
        others, keywords = shadows(args), {k: shadows(v) for k, v in kwargs.items()}
        found = gradients(f, others, keywords)
        if name in ALWAYS | SOMETIMES | IN_GRADIENTS and found is NotImplementedError:
            continue
        assert found == gradients(f, args, kwargs)


def made_of_nothing():
    """(name, call of a device) of the ops that make tensors of numbers, and draw them."""
    sizes = ["empty", "ones", "rand", "randn", "zeros"]
    for name in sizes:
        yield name, lambda d, n=name: getattr(torch, n)(2, 3, **d)
    yield "empty_permuted", lambda d: torch.empty_permuted((2, 3), (1, 0), **d)
    yield "empty_strided", lambda d: torch.empty_strided((2, 3), (1, 4), **d)
    yield "arange", lambda d: [torch.arange(7, **d), torch.arange(1.0, 4.0, 0.3, **d)]
    yield "eye", lambda d: [torch.eye(3, **d), torch.eye(2, 4, dtype=torch.int64, **d)]
    yield "full", lambda d: [torch.full((2, 3), v, **d) for v in (1, 2.5, True, 1j)]
    yield "linspace", lambda d: [torch.linspace(0, 1, n, **d) for n in (0, 1, 5)]
    yield "logspace", lambda d: torch.logspace(0, 1, 4, dtype=torch.float64, **d)
    yield "normal", lambda d: torch.normal(0.0, 1.0, (2, 3), **d)
    yield "randint", lambda d: torch.randint(0, 5, (2, 3), **d)
    yield "randperm", lambda d: torch.randperm(5, **d)
    yield "tril_indices", lambda d: [torch.tril_indices(3, 4, k, **d) for k in (-9, -1, 0, 2)]
    yield "triu_indices", lambda d: [torch.triu_indices(3, 4, k, **d) for k in (-1, 0, 2, 9)]


def made_of_another():
    """(name, call of a tensor) of the ops that take a tensor and draw or make one like it."""
    yield "multinomial", lambda x: torch.multinomial(x, 2)
    for name in ("bernoulli", "poisson"):
        yield name, lambda x, n=name: getattr(torch, n)(x)
    for name in ("dropout", "native_dropout"):
        yield name, lambda x, n=name: getattr(torch, n)(x, 0.5, True)
    for name in ("alpha_dropout", "feature_alpha_dropout", "feature_dropout"):
        yield name, lambda x, n=name: getattr(torch, n)(x, 0.5, True)
    for name in ("alpha_dropout", "dropout", "dropout1d", "feature_alpha_dropout"):
        yield f"nn.functional.{name}", lambda x, n=name: getattr(nn.functional, n)(x, 0.5, True)
    grids = nn.functional
    yield "nn.functional.dropout2d", lambda x: grids.dropout2d(x.reshape(1, 2, 3, 1))
    yield "nn.functional.dropout3d", lambda x: grids.dropout3d(x.reshape(1, 2, 3, 1, 1))
    for name in ("alpha_dropout_", "dropout_", "feature_alpha_dropout_", "feature_dropout_"):
        yield name, lambda x, n=name: getattr(torch, n)(x.clone(), 0.5, True)
    yield "binomial", lambda x: torch.binomial(x, x)
    yield "normal.of", lambda x: [torch.normal(x, 1.0), torch.normal(0.0, x), torch.normal(x, x)]
    for name in ("empty_like", "ones_like", "rand_like", "randn_like", "zeros_like"):
        yield name, lambda x, n=name: getattr(torch, n)(x)
    yield "full_like", lambda x: torch.full_like(x, 2)
    yield "randint_like", lambda x: torch.randint_like(x, 0, 5)
    in_place = {
        "bernoulli_": (), "cauchy_": (), "exponential_": (), "geometric_": (0.5,), "normal_": (),
        "log_normal_": (), "random_": (), "uniform_": (),
    }  # fmt: skip
    for name, more in in_place.items():
        yield f"Tensor.{name}", lambda x, n=name, m=more: getattr(x.clone(), n)(*m)
    for name in ("new_empty", "new_ones", "new_zeros"):
        yield f"Tensor.{name}", lambda x, n=name: getattr(x, n)((4, 2))
    yield "Tensor.new_empty_strided", lambda x: x.new_empty_strided((4, 2), (1, 5))
    yield "Tensor.new_full", lambda x: x.new_full((4, 2), 3)


@pytest.mark.parametrize(
    ("name", "make"), list(made_of_nothing()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_tensors_of_nothing_have_the_facts_of_the_cpu(name, make):
    made = make({"device": "meta"})
    assert set(places(made)) == {"meta"}
    assert facts(made) == facts(make({"device": "cpu"}))


@pytest.mark.parametrize(
    ("name", "make"), list(made_of_another()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_drawn_tensors_have_the_facts_of_the_cpu(name, make):
    for x in (torch.rand(2, 3), torch.rand(3, 2, dtype=torch.float64).T):
        made = make(shadow(x))
        assert set(places(made)) == {"meta"}
        assert facts(made) == facts(make(x))


def test_every_op_is_covered():
    public = {path(e) for e in ENTRIES if e["forms"] and e["family"] in ("creation", "random")}
    covered = {name for name, _ in [*CASES, *made_of_nothing(), *made_of_another()]}
    assert public <= covered


class TestMaking:
    def test_factories(self):
        made = [
            torch.zeros(2, 3, device="meta"), torch.ones(2, device="meta"),
            torch.rand(2, 2, device="meta"), torch.randn(3, device="meta"),
            torch.arange(5, device="meta"), torch.linspace(0, 1, 4, device="meta"),
            torch.full((2,), 3.0, device="meta"), torch.eye(3, device="meta"),
            torch.tensor([[1, 2]], device="meta"), torch.randint(0, 5, (2, 2), device="meta"),
            torch.empty(4, device=torch.device("meta")), torch.randperm(4, device="meta"),
            torch.tril_indices(3, 3, device="meta"),
        ]  # fmt: skip
        assert all(t.is_meta and not t.is_cpu and t.device == torch.device("meta") for t in made)
        assert [tuple(t.shape) for t in made[4:8]] == [(5,), (4,), (2,), (3, 3)]

    def test_no_memory_is_taken(self):
        x = torch.empty(1 << 40, device="meta")
        y = (x * 2 + x).view(1 << 20, 1 << 20).T
        assert y.shape == (1 << 20, 1 << 20)
        assert y.stride() == (1, 1 << 20)

    def test_nor_for_what_is_known_of_shapes(self):
        n, m = 10**12, {"device": "meta"}
        many, corner = torch.empty(10**6, **m), torch.empty(10**6, 3, **m)
        pairs = 10**6 * (10**6 - 1) // 2
        made = {
            (n,): [
                torch.arange(n, **m), torch.arange(0.0, 1e12, **m), torch.linspace(0, 1, n, **m),
                torch.logspace(0, 1, n, **m), torch.hann_window(n, **m), torch.fft.fftfreq(n, **m),
            ],
            (2, 10**7 * (10**7 + 1) // 2): [
                torch.tril_indices(10**7, 10**7, **m), torch.triu_indices(10**7, 10**7, **m),
            ],
            (pairs,): [nn.functional.pdist(corner)],
            (pairs, 2): [torch.combinations(many)],
            (1, 10**12 + 2): [
                nn.functional.pad(torch.empty(1, n, **m), (1, 1), mode="reflect"),
            ],
            (1, 10**12 - 2): [
                nn.functional.pad(torch.empty(1, n, **m), (-1, -1), mode="replicate"),
            ],
        }  # fmt: skip
        for shape, tensors in made.items():
            assert [tuple(t.shape) for t in tensors] == [shape] * len(tensors)

    def test_losses_and_counts_have_shapes(self):
        m = {"device": "meta"}
        probs = torch.empty(5, 2, 3, requires_grad=True, **m)
        labels = torch.ones(2, 2, dtype=torch.int64, **m)
        for lengths in ([5, 5], torch.tensor([5, 5]), torch.tensor([5, 5], **m)):
            for reduction, shape in (("mean", ()), ("sum", ()), ("none", (2,))):
                loss = nn.functional.ctc_loss(probs, labels, lengths, [2, 2], reduction=reduction)
                assert loss.shape == shape
                assert torch.autograd.grad(loss.sum(), probs)[0].shape == probs.shape
        table = torch.empty(4, 3, requires_grad=True, **m)
        bags = torch.zeros(2, dtype=torch.int64, **m)
        for mode in ("sum", "mean", "max"):
            for rows, starts in ((labels, None), (labels.flatten(), bags)):
                y = nn.functional.embedding_bag(rows, table, starts, mode=mode, padding_idx=0)
                assert (y.shape, y.stride()) == ((2, 3), (3, 1))
                assert torch.autograd.grad(y.sum(), table)[0].shape == table.shape
        x = torch.empty(10, 2, **m)
        assert [t.shape for t in torch.histogram(x, 4)] == [(4,), (5,)]
        assert torch.histogramdd(x, [2, 3]).hist.shape == (2, 3)
        pooled = nn.functional.fractional_max_pool2d(torch.empty(1, 2, 9, 9, **m), 2, output_size=3)
        assert pooled.is_meta
        assert pooled.shape == (1, 2, 3, 3)

    def test_sparse_parts(self):
        with torch.device("meta"):
            coordinates = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,))
            rows = torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2))
        asked = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device="meta")
        assert all(t.is_meta and t._values().is_meta for t in (coordinates, asked))
        assert rows.is_meta
        assert rows.values().is_meta

    def test_like_and_new(self):
        x = torch.ones(2, 3, dtype=torch.float64, device="meta")
        made = [torch.zeros_like(x), x.new_ones(4), x.new_empty(1), torch.rand_like(x), x.clone()]
        assert all(t.is_meta and t.dtype == torch.float64 for t in made)
        assert torch.zeros_like(x, device="cpu").is_cpu
        assert torch.zeros_like(torch.ones(2), device="meta").is_meta

    def test_a_default_for_the_thread(self):
        seen = []
        torch.set_default_device("meta")
        try:
            assert torch.get_default_device() == torch.device("meta")
            assert torch.ones(2).is_meta
            assert torch.tensor([1.0]).is_meta
            other = threading.Thread(target=lambda: seen.append(torch.ones(1).device.type))
            other.start()
            other.join()
        finally:
            torch.set_default_device(None)
        assert torch.ones(2).is_cpu
        assert seen == ["cpu"]

    def test_blocks(self):
        with torch.device("meta"):
            assert torch.ones(2).is_meta
            with torch.device("cpu"):
                assert torch.ones(2).is_cpu
            assert torch.ones(2).is_meta
            assert torch.ones(2, device="cpu").is_cpu
        assert torch.ones(2).is_cpu
        with pytest.raises(KeyError), torch.device("meta"):
            raise KeyError
        assert torch.ones(2).is_cpu

        @torch.device("meta")
        def made(n):
            return torch.ones(n)

        assert made(3).is_meta
        assert made.__name__ == "made"
        assert torch.ones(1).is_cpu


class TestMoving:
    def test_there(self):
        x = torch.arange(6.0).reshape(2, 3).T
        y = x.to("meta")
        assert y.is_meta
        assert y.shape == (3, 2)
        assert y.stride() == x.stride()
        assert y.to("meta") is y
        assert y.to(torch.float64).is_meta

    def test_and_not_back(self):
        x = torch.ones(2, device="meta")
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            x.to("cpu")
        with pytest.raises(NotImplementedError, match="no data"):
            torch.zeros(2).copy_(x)

    def test_copies_into_it_are_nothing(self):
        x = torch.ones(2, device="meta")
        assert x.copy_(torch.zeros(2)) is x
        assert x.is_meta

    def test_gradients_come_back(self):
        x = torch.ones(3, requires_grad=True)
        y = (x.to("meta") * 2).sum()
        with pytest.raises(NotImplementedError, match="no data"):
            y.backward()

    @pytest.mark.parametrize(
        "read",
        [
            lambda t: t.sum().item(), lambda t: t.tolist(), lambda t: bool(t.sum()),
            lambda t: t.numpy(), lambda t: float(t[0]), lambda t: memoryview(t),
            lambda t: torch.equal(t, t), lambda t: t.nonzero(), lambda t: t[t > 0],
            lambda t: t.unique(), lambda t: torch.utils.dlpack.to_dlpack(t),
        ],
    )  # fmt: skip
    def test_elements_are_refused(self, read):
        with pytest.raises((NotImplementedError, BufferError), match=NO_DATA):
            read(torch.ones(3, device="meta"))

    def test_devices_do_not_mix(self):
        x, y = torch.ones(3), torch.ones(3, device="meta")
        for mix in (
            lambda: x + y,
            lambda: torch.cat([x, y]),
            lambda: y.matmul(x),
            lambda: x.mul_(y),
        ):
            with pytest.raises(RuntimeError, match="at least two devices"):
                mix()

    def test_nor_gradients(self):
        x = torch.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="Mismatch in device"):
            (x * 2).backward(torch.ones(3, device="meta"))
        with pytest.raises(RuntimeError, match="different device"):
            x.grad = torch.ones(3, device="meta")
        with pytest.raises(RuntimeError, match="incompatible tensor type"):
            x.data = torch.ones(3, device="meta")
        y = x * 2
        y.register_hook(lambda g: g.to("meta"))
        with pytest.raises(RuntimeError, match="device"):
            y.sum().backward()

    def test_numbers_go_with_any(self):
        y = torch.ones(3, device="meta")
        assert (y + 1).is_meta
        assert (torch.tensor(2.0) * y).is_meta
        assert torch.where(y > 0, y, torch.tensor(0.0)).is_meta

    def test_host_indices(self):
        y = torch.ones(4, 3, device="meta")
        assert y[torch.tensor([0, 2])].shape == (2, 3)


class TestUses:
    def test_it_prints(self):
        assert repr(torch.ones(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
        text = repr(torch.ones(2, device="meta", dtype=torch.int64))
        assert text == "tensor(..., device='meta', size=(2,), dtype=torch.int64)"
        assert "requires_grad=True" in repr(torch.ones(1, device="meta", requires_grad=True))

    def test_copies_and_pickles(self):
        x = torch.empty_strided((2, 3), (1, 2), device="meta", requires_grad=True)
        for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert y.is_meta
            assert y.stride() == (1, 2)
            assert y.requires_grad
            assert y is not x

    def test_files(self):
        file = io.BytesIO()
        torch.save({"w": torch.ones(2, 3, device="meta").T}, file)
        file.seek(0)
        w = torch.load(file)["w"]
        assert w.is_meta
        assert w.shape == (3, 2)
        assert w.stride() == (1, 3)
        file = io.BytesIO()
        torch.save(torch.ones(2, 3), file)
        file.seek(0)
        assert torch.load(file, map_location="meta").is_meta

    def test_a_model_is_built_and_filled(self):
        def build(**options):
            return nn.Sequential(
                nn.Conv2d(3, 4, 3, **options), nn.BatchNorm2d(4, **options), nn.Flatten(),
                nn.Linear(16, 5, **options), nn.LSTM(5, 3, **options),
            )  # fmt: skip

        source = build()
        for model in (build(device="meta"), self.under_meta(build)):
            assert all(t.is_meta for t in model.state_dict().values())
            x = torch.ones(2, 3, 4, 4, device="meta")
            out = model(x)[0]
            assert out.is_meta
            assert out.shape == (2, 3)
            out.sum().backward()
            assert all(p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())
            model.zero_grad()
            with pytest.raises(NotImplementedError, match="to_empty"):
                model.to("cpu")
            model.load_state_dict(source.state_dict(), assign=True)
            y = torch.rand(2, 3, 4, 4)
            source.eval(), model.eval()
            assert torch.equal(model(y)[0], source(y)[0])

    def under_meta(self, build):
        with torch.device("meta"):
            return build()

    def test_to_empty(self):
        model = nn.Linear(2, 3, device="meta")
        old = model.weight
        assert model.to_empty(device="cpu") is model
        assert model.weight.is_cpu
        assert isinstance(model.weight, nn.Parameter)
        assert old.is_meta
        model.load_state_dict(nn.Linear(2, 3).state_dict())
        assert model(torch.ones(1, 2)).shape == (1, 3)

    def test_loading_into_meta_warns(self):
        model = nn.Linear(2, 3, device="meta")
        with pytest.warns(UserWarning, match="assign=True"):
            model.load_state_dict(nn.Linear(2, 3).state_dict())
        assert model.weight.is_meta

    def test_optimizers(self):
        model = nn.Linear(2, 3, device="meta")
        for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
            optimizer = kind(model.parameters(), lr=0.1)
            model(torch.ones(4, 2, device="meta")).sum().backward()
            optimizer.step()
            assert all(p.is_meta for p in model.parameters())

    def test_higher_derivatives_and_transforms(self):
        x = torch.ones(3, device="meta", requires_grad=True)
        g = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)[0]
        assert torch.autograd.grad(g.sum(), x)[0].is_meta
        assert torch.func.jacrev(torch.sin)(x.detach()).shape == (3, 3)
        assert torch.func.hessian(lambda t: (t**3).sum())(x.detach()).shape == (3, 3)
        assert torch.func.vmap(torch.sin)(x.detach()).is_meta
        assert torch.func.jvp(torch.sin, (x.detach(),), (x.detach(),))[1].is_meta

    def test_in_place_and_views(self):
        x = torch.zeros(2, 3, device="meta")
        view = x[0]
        view.add_(1)
        assert x._version == 1
        assert view._base is x
        assert x.data_ptr() == 0
        torch.add(x, x, out=x)
        x[0] = 5
        x[:, 1:].normal_()
        assert x._version >= 3

    def test_data_and_sharing(self):
        x = torch.ones(20, device="meta")
        assert x.data.is_meta
        assert (x.data.add_(1) * 2).is_meta
        assert x.share_memory_() is x
        assert x.untyped_storage().nbytes() == 80

    def test_the_tracer_of_nan_passes_them_by(self):
        with torch.autograd.trace_nan():
            assert (torch.ones(2, device="meta") / 0).is_meta
