"""Names that must answer on a machine without a GPU: queries say no, uses explain."""

import importlib
import pickle
import warnings

import pytest

import rushlight as torch
from support import leaf

NO = {
    "torch.cuda.is_available()": False,
    "torch.cuda.device_count()": 0,
    "torch.cuda.is_initialized()": False,
    "torch.cuda.is_bf16_supported()": False,
    "torch.cuda.memory_allocated()": 0,
    "torch.cuda.max_memory_allocated(0)": 0,
    "torch.cuda.memory_reserved()": 0,
    "torch.cuda.memory_stats()": {},
    "torch.cuda.empty_cache()": None,
    "torch.cuda.reset_peak_memory_stats()": None,
    "torch.cuda.manual_seed(1)": None,
    "torch.cuda.manual_seed_all(1)": None,
    "torch.cuda.get_rng_state_all()": [],
    "torch.cuda.set_rng_state_all([])": None,
    "torch.cuda.get_arch_list()": [],
    "torch.cuda.memory.memory_allocated()": 0,
    "torch.cuda.random.manual_seed_all(2)": None,
    "torch.mps.is_available()": False,
    "torch.mps.device_count()": 0,
    "torch.mps.manual_seed(0)": None,
    "torch.xpu.is_available()": False,
    "torch.xpu.device_count()": 0,
    "torch.accelerator.is_available()": False,
    "torch.accelerator.device_count()": 0,
    "torch.accelerator.current_accelerator()": None,
    "torch.cpu.is_available()": True,
    "torch.cpu.device_count()": 1,
    "torch.backends.cuda.is_built()": False,
    "torch.backends.cudnn.is_available()": False,
    "torch.backends.cudnn.version()": None,
    "torch.backends.mps.is_available()": False,
    "torch.backends.mps.is_built()": False,
    "torch.backends.openmp.is_available()": True,
    "torch.version.cuda": None,
    "torch.version.hip": None,
    "torch.distributed.is_available()": True,
    "torch.distributed.is_initialized()": False,
    "torch.jit.is_scripting()": False,
    "torch.jit.is_tracing()": False,
    "torch.compiler.is_compiling()": False,
    "torch._dynamo.is_compiling()": False,
    "torch.zeros(1).is_cuda": False,
    "torch.zeros(1).is_mps": False,
    "torch.zeros(1).get_device()": -1,
    "torch.zeros(1).is_pinned()": False,
    "torch.get_default_device()": torch.device("cpu"),
    "torch.device('mps').type": "mps",
    "torch.device('cuda:1').index": 1,
}


@pytest.mark.parametrize("question", NO)
def test_questions_are_answered(question):
    assert eval(question) == NO[question]


RAISES = {
    "torch.zeros(2).cuda()": AssertionError,
    "torch.zeros(2).to('cuda')": AssertionError,
    "torch.zeros(2).to(torch.device('cuda:0'))": AssertionError,
    "torch.zeros(2, device='cuda')": AssertionError,
    "torch.tensor([1.0], device='cuda')": AssertionError,
    "torch.arange(3, device=0)": AssertionError,
    "torch.zeros(2).xpu()": AssertionError,
    "torch.zeros(2, device='xpu')": AssertionError,
    "torch.zeros(2, device='mps')": NotImplementedError,
    "torch.zeros(2).to('mps')": NotImplementedError,
    "torch.Generator('cuda')": AssertionError,
    "torch.set_default_device('cuda')": AssertionError,
    "torch.nn.Linear(2, 2).cuda()": AssertionError,
    "torch.nn.Linear(2, 2, device='cuda')": AssertionError,
    "torch.nn.Linear(2, 2).to('cuda')": AssertionError,
    "torch.cuda.current_device()": AssertionError,
    "torch.cuda.synchronize()": AssertionError,
    "torch.cuda.get_device_name(0)": AssertionError,
    "torch.cuda.set_device(0)": AssertionError,
    "torch.cuda.get_rng_state()": AssertionError,
    "torch.cuda.Stream()": RuntimeError,
    "torch.cuda.Event(enable_timing=True)": RuntimeError,
    "torch.cuda.FloatTensor(2)": TypeError,
    "torch.cuda.device(0).__enter__()": RuntimeError,
    "torch.device('cuda').__enter__()": AssertionError,
    "torch.mps.synchronize()": RuntimeError,
    "torch.accelerator.synchronize()": RuntimeError,
    "torch.zeros(2).pin_memory()": RuntimeError,
    "torch.distributed.get_rank()": ValueError,
    "torch.distributed.init_process_group('nccl')": RuntimeError,
    "torch.device('gpu')": RuntimeError,
}


@pytest.mark.parametrize("use", RAISES)
def test_uses_raise_and_say_what_to_do(use):
    with pytest.raises(RAISES[use]) as caught:
        eval(use)
    assert type(caught.value) is RAISES[use]
    text = str(caught.value)
    assert any(word in text for word in ("CPU", "available", "init_process_group", "cpu, cuda"))


def test_guards_that_change_nothing_work():
    with torch.cuda.device(-1), torch.cuda.device_of(torch.zeros(1)), torch.cuda.stream(None):
        pass
    with torch.device("cpu"), torch.accelerator.device_index(None):
        assert torch.zeros(1).device == torch.device("cpu")
    with torch.cuda.nvtx.range("step {}", 1):
        assert torch.cuda.nvtx.range_push("x") == 1
        torch.cuda.nvtx.range_pop()

    @torch.device("cpu")
    def made():
        return torch.ones(1)

    assert made().item() == 1


def test_backends_remember_their_switches():
    cudnn = torch.backends.cudnn
    with cudnn.flags(enabled=False, deterministic=True):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (False, False, True)
    assert (cudnn.enabled, cudnn.deterministic) == (True, False)
    cudnn.benchmark = True
    assert torch.backends.cudnn.benchmark
    cudnn.benchmark = False
    before = cudnn.set_flags(_benchmark=True)
    assert cudnn.benchmark
    cudnn.set_flags(*before)
    assert not cudnn.benchmark
    with torch.backends.cuda.sdp_kernel(enable_flash=False):
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    with torch.backends.mkldnn.flags(enabled=False):
        assert not torch.backends.mkldnn.enabled
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cuda.matmul.allow_tf32
    assert torch.get_float32_matmul_precision() == "high"
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("medium")
    assert torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    assert torch.get_float32_matmul_precision() == "highest"


def test_compile_gives_an_equal_callable():
    def f(x, *, scale=2):
        return x.sin() * scale

    @torch.compile(mode="reduce-overhead", fullgraph=True)
    def g(x):
        return x * 3

    x = leaf([1.0, 2.0])
    for h in (torch.compile(f), torch.compile(f, backend="eager"), torch.compiler.compile(f)):
        assert h(x, scale=3).tolist() == f(x, scale=3).tolist()
    assert g(x).tolist() == [3, 6]
    assert torch.compiler.disable(f) is f
    assert torch.compiler.disable()(f) is f
    with pytest.raises(RuntimeError, match="both"):
        torch.compile(f, mode="default", options={})
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        torch.compile(f, mode="warp")
    with pytest.raises(RuntimeError, match="callable"):
        torch.compile(3)


def test_jit_gives_an_equal_callable():
    calls = []

    @torch.jit.script
    def f(x):
        calls.append(1)
        return x + 1

    traced = torch.jit.trace(f, torch.zeros(1))
    assert calls == [1]
    assert traced(torch.ones(1)).item() == 2
    assert torch.jit.ignore(f) is f
    assert torch.jit.ignore(drop=True)(f) is f
    assert torch.jit.wait(torch.jit.fork(f, torch.ones(1))).item() == 2
    assert torch.jit.annotate(int, 3) == 3
    assert torch.jit.isinstance([1], list[int])
    assert not issubclass(torch.nn.Linear, torch.jit.ScriptModule)


def test_settings_are_kept():
    assert torch.get_float32_matmul_precision() == "highest"
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")
    with pytest.warns(UserWarning, match="stays 'highest'"):
        torch.set_float32_matmul_precision("low")
    assert torch.get_num_interop_threads() > 0
    torch.set_default_device("cpu")
    torch.set_default_device(None)
    assert torch.get_device_module().__name__ == "rushlight.cpu"
    assert isinstance(torch.__config__.show(), str)
    assert "threads" in torch.__config__.parallel_info()
    assert torch.version.__version__ == torch.__version__
    assert torch.is_warn_always_enabled() is False


class TestLegacyTypes:
    def test_constructors(self):
        assert torch.FloatTensor(2, 3).shape == (2, 3)
        assert torch.LongTensor([1, 2]).dtype == torch.int64
        assert torch.ByteTensor([1]).dtype == torch.uint8
        assert torch.DoubleTensor().shape == (0,)
        assert torch.HalfTensor(torch.Size([2])).dtype == torch.float16
        assert torch.zeros(2).type(torch.LongTensor).dtype == torch.int64
        assert torch.zeros(2).type("torch.DoubleTensor").dtype == torch.float64
        assert torch.zeros(2, dtype=torch.int8).new(3).dtype == torch.int8
        assert torch.zeros(2, dtype=torch.int8).new([1, 2]).tolist() == [1, 2]

    def test_instances(self):
        assert isinstance(torch.zeros(1), torch.FloatTensor)
        assert not isinstance(torch.zeros(1), torch.DoubleTensor)
        assert not isinstance(torch.zeros(1), torch.cuda.FloatTensor)
        assert not isinstance(1.0, torch.FloatTensor)

    def test_the_default(self):
        torch.set_default_tensor_type(torch.DoubleTensor)
        try:
            assert torch.zeros(1).dtype == torch.float64
        finally:
            torch.set_default_tensor_type("torch.FloatTensor")
        with pytest.raises(TypeError):
            torch.set_default_tensor_type("torch.cuda.FloatTensor")
        with pytest.raises(ValueError, match="invalid type"):
            torch.set_default_tensor_type("torch.FlatTensor")

    def test_wrong_arguments(self):
        for bad in (2.5, "a"):
            with pytest.raises(TypeError):
                torch.FloatTensor(bad)
        with pytest.raises(TypeError, match="float64"):
            torch.FloatTensor(torch.zeros(1, dtype=torch.float64))


class TestAssertClose:
    def test_what_is_close_passes(self):
        close = torch.testing.assert_close
        close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 1e-6]))
        close([1, {"a": torch.ones(2)}], [1, {"a": torch.ones(2)}])
        close(1.0, 1.0 + 1e-9)
        close(1, 1.0, check_dtype=False)
        close(None, None)
        close(torch.tensor(float("nan")), torch.tensor(float("nan")), equal_nan=True)
        close(torch.tensor([float("inf")]), torch.tensor([float("inf")]))
        close(torch.ones(2), torch.ones(2, dtype=torch.float64), check_dtype=False)
        close(torch.ones(0), torch.ones(0))
        close(torch.tensor([True]), torch.tensor([True]))

    @pytest.mark.parametrize(
        ("a", "b", "text"),
        [
            (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), "1 / 2 (50.0%)"),
            (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), "at index (1,)"),
            (torch.tensor([1, 2]), torch.tensor([1, 3]), "Tensor-likes are not equal!"),
            (torch.ones(2), torch.ones(3), "'shape' do not match"),
            (torch.ones(2), torch.ones(2, dtype=torch.float64), "'dtype' do not match"),
            (1, 1.0, "(d)types do not match"),
            (1.0, 1.1, "Scalars are not close!"),
            ([torch.ones(1)], [torch.zeros(1)], "item [0]"),
            ({"a": 1}, {"a": 2}, "item ['a']"),
            ({"a": 1}, {"b": 1}, "keys of the mappings"),
            ([1], [1, 2], "length of the sequences"),
            (None, 1, "None mismatch"),
            (torch.tensor(float("nan")), torch.tensor(float("nan")), "Greatest absolute"),
        ],
    )
    def test_what_is_not_raises(self, a, b, text):
        with pytest.raises(AssertionError) as caught:
            torch.testing.assert_close(a, b)
        assert text in str(caught.value)

    def test_arguments(self):
        with pytest.raises(ValueError, match="rtol and atol"):
            torch.testing.assert_close(1.0, 1.0, rtol=1e-3)
        with pytest.raises(TypeError):
            torch.testing.assert_close("a", "a")
        with pytest.raises(AssertionError, match=r"^mine$"):
            torch.testing.assert_close(1, 2, msg="mine")
        with pytest.raises(AssertionError, match=r"^seen: Scalars"):
            torch.testing.assert_close(1, 2, msg=lambda m: f"seen: {m}")
        torch.testing.assert_close(1.0, 1.05, rtol=0.1, atol=0)


class TestMakeTensor:
    @pytest.mark.parametrize("name", ["float32", "float64", "complex64", "int64", "uint8", "bool"])
    def test_types_and_bounds(self, name):
        t = torch.testing.make_tensor((3, 4), dtype=getattr(torch, name), device="cpu")
        assert t.dtype == getattr(torch, name)
        assert t.shape == (3, 4)
        if not t.is_complex():
            assert t.double().abs().max() <= 10

    def test_options(self):
        make = torch.testing.make_tensor
        t = make(50, dtype=torch.float32, low=2, high=3, requires_grad=True)
        assert t.requires_grad
        assert bool(((t >= 2) & (t < 3)).all())
        assert not make(4, 5, dtype=torch.float32, noncontiguous=True).is_contiguous()
        assert bool((make(200, dtype=torch.int64, low=0, high=2, exclude_zero=True) == 1).all())
        with pytest.raises(ValueError, match="low"):
            make(2, dtype=torch.float32, low=3, high=3)
        with pytest.raises(ValueError, match="requires_grad"):
            make(2, dtype=torch.int64, requires_grad=True)


class TestTensorMethods:
    def test_apply_and_map(self):
        t = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()
        assert t.apply_(lambda v: v + 1).tolist() == [[2, 4], [3, 5]]
        assert t.map_(torch.tensor([1.0, 2.0]), lambda a, b: a * b).tolist() == [[2, 8], [3, 10]]
        with pytest.raises(RuntimeError, match=r"Use x.detach\(\).apply_\(\)"):
            leaf([1.0]).apply_(abs)
        with pytest.raises(RuntimeError, match=r"Use x.detach\(\).map_\(\)"):
            torch.zeros(1).map_(leaf([1.0]), max)

    def test_set_without_a_source(self):
        t = torch.zeros(2, 3, dtype=torch.int64)
        assert t.set_() is t
        assert (t.shape, t.dtype) == ((0,), torch.int64)

    def test_sameness(self):
        t = torch.zeros(2, 3)
        assert t.is_same_size(torch.ones(2, 3))
        assert t.is_set_to(t.view(2, 3))
        assert not t.is_set_to(t.t())
        with pytest.raises(TypeError, match="must be Tensor, not int"):
            t.is_set_to(3)
        assert torch.ones(2).resize_as_(t).shape == (2, 3)


MODULES = (
    "accelerator", "backends", "backends.cpu", "backends.quantized", "compiler", "cuda",
    "cuda.amp", "distributed", "jit", "mps", "testing", "torch_version", "types", "version", "xpu",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_loaded_on_first_use(name):
    module = importlib.import_module(f"rushlight.{name}")
    found = torch
    for part in name.split("."):
        found = getattr(found, part)
    assert found is module
    for public in getattr(module, "__all__", ()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert hasattr(module, public), public


def test_named_tuples_of_ops_are_found():
    found = torch.max(torch.tensor([[1.0, 2.0]]), 1)
    assert isinstance(found, torch.return_types.max)
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is type(found)
    assert again.indices.item() == 1
    expected = "torch.return_types.max(\nvalues=tensor([2.]),\nindices=tensor([1]))"
    assert repr(found) == str(found) == expected
    with pytest.raises(AttributeError, match="rushlight does not have it"):
        torch.return_types.maximal


def test_versions_compare_by_number():
    from rushlight.torch_version import TorchVersion

    v = TorchVersion("2.13.0+rushlight")
    assert v > "2.9"
    assert v >= "2.13"
    assert v == "2.13.0"
    assert v < (3,)
    assert v != "2.12"
    assert "2.9.1" < v
    assert isinstance(v, str)
    assert pickle.loads(pickle.dumps(v)) == v


def test_the_accelerator_is_cuda_where_there_is_one(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: chosen.append("waited"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device=None: 7)
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch._C._get_accelerator() == torch.device("cuda")
    assert (torch.accelerator.device_count(), torch.accelerator.current_device_index()) == (1, 0)
    torch.accelerator.synchronize()
    with torch.accelerator.device_index(1):
        assert chosen == ["waited", 1]
    assert chosen == ["waited", 1, 0]
    assert torch.accelerator.memory_allocated() == 7
    assert torch.float16 in torch.accelerator.get_device_capability()["supported_dtypes"]
