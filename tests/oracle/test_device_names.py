"""Devices, settings and legacy types: PyTorch's answers on a machine without a GPU."""

import warnings

import pytest
import torch

import rushlight

QUESTIONS = """
torch.cuda.is_available()
torch.cuda.device_count()
torch.cuda.is_initialized()
torch.cuda.is_bf16_supported()
torch.cuda.memory_allocated()
torch.cuda.max_memory_allocated()
torch.cuda.memory_reserved()
torch.cuda.memory_stats()
torch.cuda.empty_cache()
torch.cuda.manual_seed(3)
torch.cuda.manual_seed_all(3)
torch.cuda.seed_all()
torch.cuda.get_rng_state_all()
torch.cuda.get_arch_list()
torch.cuda.default_generators
torch.cuda.has_half
torch.cuda.current_device()
torch.cuda.get_device_name()
torch.cuda.get_device_properties(0)
torch.cuda.get_device_capability()
torch.cuda.synchronize()
torch.cuda.init()
torch.cuda.initial_seed()
torch.cuda.get_rng_state()
torch.cuda.mem_get_info()
torch.cuda.current_stream()
torch.cuda.Stream()
torch.cuda.Event()
torch.cuda.CUDAGraph()
torch.cuda.FloatTensor(2)
torch.cuda.device(0).__enter__()
torch.cuda.device_of(torch.zeros(1)).__enter__()
torch.mps.is_available()
torch.mps.device_count()
torch.mps.synchronize()
torch.mps.manual_seed(0)
torch.xpu.is_available()
torch.xpu.device_count()
torch.xpu.synchronize()
torch.xpu.empty_cache()
torch.xpu.manual_seed_all(0)
torch.accelerator.is_available()
torch.accelerator.current_accelerator()
torch.accelerator.device_count()
torch.accelerator.synchronize()
torch.accelerator.current_device_index()
torch.accelerator.current_stream()
torch.cpu.current_device()
torch.cpu.device_count()
torch.cpu.synchronize()
torch.backends.cudnn.is_available()
torch.backends.cudnn.version()
torch.backends.cudnn.enabled
torch.backends.cudnn.benchmark
torch.backends.cudnn.deterministic
torch.backends.cudnn.allow_tf32
torch.backends.cuda.is_built()
torch.backends.cuda.matmul.allow_tf32
torch.backends.cuda.flash_sdp_enabled()
torch.backends.mkldnn.enabled
torch.backends.openmp.is_available()
torch.backends.mps.is_available()
torch.backends.mps.is_built()
torch.backends.cpu.get_cpu_capability()
torch.get_float32_matmul_precision()
torch.set_float32_matmul_precision('lowest')
torch.version.cuda
torch.version.hip
torch.version.debug
torch.get_default_device()
torch.distributed.is_initialized()
torch.distributed.get_rank()
torch.compiler.is_compiling()
torch.jit.is_scripting()
torch.jit.is_tracing()
torch.is_warn_always_enabled()
torch.zeros(2).cuda()
torch.zeros(2).to('cuda')
torch.zeros(2, device='cuda')
torch.zeros(2, device='xpu')
torch.zeros(2, device='mps')
torch.zeros(2, device='foo')
torch.zeros(2).xpu()
torch.zeros(2).pin_memory()
torch.zeros(2).is_pinned()
torch.zeros(2).is_cuda
torch.zeros(2).is_mps
torch.zeros(2).get_device()
torch.device('mps').type
torch.device('cuda', 1).index
torch.device('cuda:x')
torch.typename(torch.zeros(2))
torch.FloatTensor
torch.FloatTensor.dtype
torch.FloatTensor(2, 2).shape
torch.FloatTensor([1, 2]).tolist()
torch.FloatTensor(2.5)
torch.FloatTensor('a')
torch.FloatTensor(torch.zeros(2, dtype=torch.float64))
torch.LongTensor([1.5]).tolist()
torch.ByteTensor(2).dtype
torch.BoolTensor([True]).tolist()
isinstance(torch.zeros(2), torch.FloatTensor)
isinstance(torch.zeros(2), torch.DoubleTensor)
issubclass(torch.FloatTensor, torch.Tensor)
torch.zeros(2).type(torch.LongTensor).dtype
torch.zeros(2).type('torch.DoubleTensor').dtype
torch.zeros(2).type('torch.Foo')
torch.set_default_tensor_type('torch.cuda.FloatTensor')
torch.zeros(3).new(2, 2).shape
torch.zeros(3, dtype=torch.int64).new([1, 2]).dtype
torch.broadcast_shapes((2, 1), (3,), 1)
torch.broadcast_shapes((2,), (3,))
torch.broadcast_shapes((-1,), (3,))
torch.get_device(torch.zeros(1))
torch.is_same_size(torch.zeros(1), torch.zeros(1, 1))
torch.is_signed(torch.zeros(1, dtype=torch.uint8))
torch.utils.deterministic.fill_uninitialized_memory
torch.compile(abs, mode='default', options={'a': 1})
torch.compile(abs, mode='what')
torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-6)
torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-4)
torch.testing.assert_close(torch.ones(2), torch.ones(3))
torch.testing.assert_close(torch.ones(2), [1.0, 1.0])
torch.testing.assert_close([1.0, 1.0], torch.ones(2))
torch.testing.assert_close(1.0, torch.ones(()))
torch.testing.assert_close((1, 2), [1, 2])
torch.testing.assert_close(1, 1.0)
torch.testing.assert_close('a', 'b')
torch.testing.assert_close(1.0, 1.0, rtol=0.1)
""".strip().splitlines()


def answer(library, question):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return str(eval(question, {"torch": library}))
        except Exception as error:
            return error


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_pytorchs(question):
    ours, theirs = answer(rushlight, question), answer(torch, question)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), (ours, theirs)
    else:
        assert ours == theirs


def same_numbers(make):
    with rushlight.random.torch_streams():
        rushlight.manual_seed(5)
        torch.manual_seed(5)
        return make(rushlight).tolist() == make(torch).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64", "uint8", "bool"])
def test_make_tensor_draws_the_same(dtype):
    def make(L):
        return L.testing.make_tensor(3, 4, dtype=getattr(L, dtype), device="cpu")

    assert same_numbers(make)


def test_make_tensor_draws_the_same_with_options():
    def make(L):
        options = {"low": -1, "high": 3, "noncontiguous": True, "exclude_zero": True}
        return L.testing.make_tensor((5, 6), dtype=L.float32, device="cpu", **options)

    assert same_numbers(make)


@pytest.mark.parametrize(
    ("a", "b"),
    [([1.0, 2.0, 3.0], [1.0, 2.5, 3.0]), ([[1.0, 5.0]], [[2.0, 5.0]]), ([1, 2], [1, 3])],
)
def test_assert_close_tells_the_same_figures(a, b):
    texts = []
    for L in (rushlight, torch):
        with pytest.raises(AssertionError) as caught:
            L.testing.assert_close(L.tensor(a), L.tensor(b))
        texts.append(str(caught.value).strip())
    assert texts[0] == texts[1]
