"""Types that are stored, moved and converted: large unsigned integers, float8, complex32."""

import copy
import io
import pickle

import pytest

import rushlight as torch

UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
FLOAT8 = [
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]  # fmt: skip
STORED = [*UNSIGNED, *FLOAT8, torch.complex32]


def codes(dtype):
    """Every element of a float8."""
    return torch.arange(256).to(torch.uint8).view(dtype)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_code_comes_back(dtype):
    wide = codes(dtype).float()
    back = wide.to(dtype).view(torch.uint8)
    known = ~wide.isnan()
    assert torch.equal(back[known], codes(dtype).view(torch.uint8)[known])
    assert wide.to(dtype).isnan().tolist() == wide.isnan().tolist()


def test_what_is_too_large():
    large = torch.tensor([1e9, -1e9, float("inf"), float("nan")])
    assert large.to(torch.float8_e4m3fn).tolist()[:3] == [448, -448, 448]
    assert large.to(torch.float8_e5m2).tolist()[:3] == [float("inf"), -float("inf"), float("inf")]
    assert large.to(torch.float8_e4m3fnuz).isnan().all()
    assert large.to(torch.float8_e5m2fnuz).isnan().all()
    for dtype in FLOAT8:
        assert large.to(dtype)[3].isnan()


def test_ties_go_to_the_even_one():
    halfway = torch.tensor([1.0625, 1.1875, 2**-10, 3 * 2.0**-10])
    assert halfway.to(torch.float8_e4m3fn).tolist() == [1.0, 1.25, 0.0, 2 * 2.0**-9]


@pytest.mark.parametrize("dtype", STORED)
def test_copies(dtype):
    x = torch.tensor([[1, 2], [4, 8]]).to(dtype)
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    for y in (
        copy.deepcopy(x),
        pickle.loads(pickle.dumps(x)),
        torch.load(file),
        x.clone(),
        x.t().contiguous().t(),
        torch.stack([x[0], x[1]]),
        torch.cat([x[:1], x[1:]]),
        torch.zeros(2, 2, dtype=dtype).copy_(x),
    ):
        assert y.dtype is dtype
        assert torch.equal(y, x)
    assert x.to("meta").dtype is dtype
    assert torch.empty(3, dtype=dtype, device="meta").element_size() == dtype.itemsize
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@pytest.mark.parametrize("dtype", STORED)
def test_writes(dtype):
    x = torch.zeros(3, 4, dtype=dtype)
    x[1] = 2
    x[:, 0] = torch.tensor([1, 2, 4]).to(dtype)
    x[torch.tensor([2]), torch.tensor([3])] = 8
    x[x == x.new_full((), 2)] = 4
    assert x.to(torch.complex64).real[1].tolist() == [4, 4, 4, 4]
    assert x[2, 3].item() == 8
    y = x.masked_fill(x == 8, 1).scatter(0, torch.zeros(1, 4, dtype=torch.int64), x[1:2])
    assert y[2, 3].item() == 1
    assert y[0].tolist() == [4, 4, 4, 4]


def test_bits_survive_a_choice():
    # One of the NaN of float8_e5m2, which a conversion would not keep.
    x = torch.tensor([0x7D, 0x01], dtype=torch.uint8).view(torch.float8_e5m2)
    chosen = torch.where(torch.tensor([True, True]), x, x)
    assert chosen.view(torch.uint8).tolist() == [0x7D, 0x01]
    out = torch.empty(2, dtype=torch.float8_e5m2)
    torch.where(torch.tensor([True, False]), x, x.new_full((), 2), out=out)
    assert out[0].isnan()
    assert out[1].item() == 2
    kept = x.masked_fill(torch.tensor([False, True]), 0)
    assert kept.view(torch.uint8).tolist() == [0x7D, 0x00]


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32])
def test_arithmetic_wraps(dtype):
    top = torch.iinfo(dtype).max
    x = torch.tensor([0, 1, top], dtype=dtype)
    assert (x + 1).tolist() == [1, 2, 0]
    assert (x - 1).tolist() == [top, 0, top - 1]
    assert (x * x).tolist() == [0, 1, 1]
    assert (-x).tolist() == [0, top, 1]
    assert (~x).tolist() == [top, top - 1, 0]
    assert (x // 2).tolist() == [0, 0, top // 2]
    assert (x % 7).tolist() == [0, 1, top % 7]
    assert (x >> 1).tolist() == [0, 0, top >> 1]
    assert (x << 1).tolist() == [0, 2, top - 1]
    assert (x > 1).tolist() == [False, False, True]
    assert x.clamp(1, 5).tolist() == [1, 1, 5]
    assert torch.maximum(x, x.flip(0)).tolist() == [top, 1, top]
    assert x.max().item() == top
    assert x.dtype is (x + 1).dtype is x.max().dtype is dtype


def test_uint64_as_far_as_its_bits_allow():
    top = 2**64 - 1
    x = torch.tensor([0, 1, top, 2**63], dtype=torch.uint64)
    assert (x + 1).tolist() == [1, 2, 0, 2**63 + 1]
    assert (x ^ 1).tolist() == [1, 0, top - 1, 2**63 + 1]
    assert (x == top).tolist() == [False, False, True, False]
    assert x.sort().values.tolist() == [0, 1, 2**63, top]
    assert x.argsort(descending=True).tolist() == [2, 3, 1, 0]
    assert x.max().item() == top
    assert x.unique().tolist() == [0, 1, 2**63, top]
    assert torch.searchsorted(x.sort().values, x).tolist() == [0, 1, 3, 2]
    assert x.double().tolist() == [0, 1, 2.0**64, 2.0**63]
    assert torch.tensor([2.0**63, 1e19], dtype=torch.float64).to(torch.uint64).tolist() == [
        2**63,
        10**19,
    ]
    for refused in (lambda: x < 1, lambda: x // 2, lambda: x >> 1, lambda: x.abs()):
        with pytest.raises(NotImplementedError, match=r"for 'UInt64'.*convert.*torch\.float32"):
            refused()


def test_numbers_that_only_uint64_has():
    assert torch.full((2,), 2**64 - 1, dtype=torch.uint64).tolist() == [2**64 - 1] * 2
    assert torch.zeros(1, dtype=torch.uint64).fill_(2**63).item() == 2**63
    for make in (
        lambda: torch.full((2,), 2**63),
        lambda: torch.zeros(2, dtype=torch.int64).fill_(2**63),
        lambda: torch.full((2,), 70000, dtype=torch.uint16),
        lambda: torch.full((2,), 1e9, dtype=torch.float8_e4m3fn),
        lambda: torch.tensor([65536], dtype=torch.uint16),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            make()
    with pytest.raises(OverflowError):
        torch.tensor([-1], dtype=torch.uint64)
    with pytest.raises(OverflowError):
        torch.tensor([2**64], dtype=torch.uint64)
    assert torch.tensor([-1], dtype=torch.uint32).tolist() == [2**32 - 1]


@pytest.mark.parametrize("dtype", FLOAT8)
def test_a_float8_is_not_computed_with(dtype):
    x = torch.ones(2, 2, dtype=dtype)
    for op, call in {
        "add": lambda: x + x,
        "exp": lambda: x.exp(),
        "mm": lambda: x @ x,
        "sum": lambda: x.sum(),
        "softmax": lambda: x.softmax(0),
        "conv1d": lambda: torch.nn.functional.conv1d(x[None], x[None]),
        "linalg": lambda: torch.linalg.inv(x),
    }.items():
        with pytest.raises(RuntimeError) as caught:
            call()
        text = str(caught.value)
        assert f"Float8_{dtype.name[7:]}" in text or dtype.name in text, (op, text)
    with pytest.raises(NotImplementedError, match=r'"add".*float8.*\.to\(torch\.float32\)'):
        x + x
    with pytest.raises(RuntimeError, match="Promotion for Float8"):
        x * torch.ones(2, 2)


def test_results_are_not_written_into_what_kernels_do_not_know():
    for dtype in STORED:
        for call in (
            lambda dtype=dtype: torch.randn(3, dtype=dtype),
            lambda dtype=dtype: torch.ones(3).softmax(0, dtype=dtype),
            lambda dtype=dtype: torch.zeros(3, dtype=dtype).uniform_(),
            lambda dtype=dtype: torch.zeros(3, dtype=dtype).bernoulli_(0.5),
        ):
            try:
                result = call()
            except (RuntimeError, TypeError):
                continue
            assert result.dtype is dtype


def test_random_integers():
    torch.manual_seed(0)
    for dtype in UNSIGNED:
        x = torch.randint(0, 7, (1000,), dtype=dtype)
        assert x.dtype is dtype
        assert x.unique().tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert torch.randperm(5, dtype=torch.uint16).sort().values.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(NotImplementedError, match="Float8_e5m2"):
        torch.zeros(3, dtype=torch.float8_e5m2).random_(0, 5)
    with pytest.raises(TypeError, match="float8"):
        torch.set_default_dtype(torch.float8_e4m3fn)


def test_batches():
    x = torch.tensor([[3, 1], [2, 9]], dtype=torch.uint16)
    assert torch.vmap(lambda v: v.sort().values)(x).tolist() == [[1, 3], [2, 9]]
    large = torch.tensor([[2**63, 1], [2, 9]], dtype=torch.uint64)
    assert torch.vmap(lambda v: v.sort().values)(large).tolist() == [[1, 2**63], [2, 9]]
    assert torch.vmap(lambda v: torch.where(v == 9, v, v * 2))(x).tolist() == [[6, 2], [4, 9]]
    y = torch.ones(2, 3).to(torch.float8_e4m3fn)
    assert torch.vmap(lambda v: v.float().sum())(y).tolist() == [3, 3]
    cast = lambda v: v.to(torch.float8_e4m3fn).float()
    _, tangent = torch.func.jvp(cast, (torch.ones(2),), (torch.tensor([1.1, 1.0]),))
    assert tangent.tolist() == [1.125, 1.0]


def test_gradients_are_rounded_where_the_values_are():
    x = torch.tensor([1.1, 2.3], requires_grad=True)
    y = x.to(torch.float8_e4m3fn)
    (y.float() * torch.tensor([1.1, 3.0])).sum().backward()
    assert x.grad.tolist() == [1.125, 3.0]
    z = torch.zeros(2, dtype=torch.float8_e5m2, requires_grad=True)
    (z.float() ** 2 + 3 * z.float()).sum().backward()
    assert z.grad.dtype is torch.float8_e5m2
    assert z.grad.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="floating point"):
        torch.zeros(2, dtype=torch.uint16, requires_grad=True)


def test_modules_in_float8():
    layer = torch.nn.Linear(2, 2).to(torch.float8_e4m3fn)
    assert layer.weight.dtype is torch.float8_e4m3fn
    layer.to(torch.float32)(torch.ones(1, 2)).sum().backward()
    other = torch.nn.Linear(2, 2).to(torch.float8_e4m3fn)
    other.load_state_dict(layer.to(torch.float8_e4m3fn).state_dict())
    assert torch.equal(other.weight, layer.weight)


@pytest.mark.parametrize("dtype", [*UNSIGNED, torch.float8_e4m3fn, torch.float8_e5m2])
def test_safetensors(dtype):
    pytest.importorskip("safetensors")
    from rushlight import safetensors

    x = torch.tensor([[1, 2], [4, 8]]).to(dtype)
    loaded = safetensors.load(safetensors.save({"x": x}))["x"]
    assert loaded.dtype is dtype
    assert torch.equal(loaded, x)


def test_buffers():
    assert torch.frombuffer(b"abcd", dtype=torch.uint16).tolist() == [25185, 25699]
    assert torch.frombuffer(b"abcd", dtype=torch.float8_e4m3fn).tolist() == [36, 40, 44, 48]
    assert memoryview(torch.ones(2, dtype=torch.uint32)).format == "I"
    with pytest.raises(BufferError, match="float8_e5m2"):
        memoryview(torch.ones(2, dtype=torch.float8_e5m2))
    with pytest.raises(TypeError, match="Float8_e4m3fn"):
        torch.ones(2, dtype=torch.float8_e4m3fn).numpy()


def test_indices_of_these_types():
    x = torch.arange(5)
    with pytest.raises(IndexError, match="long, int, byte or bool"):
        x[torch.tensor([1, 2], dtype=torch.uint16)]
    assert [10, 20, 30][torch.tensor(1, dtype=torch.uint16)] == 20
