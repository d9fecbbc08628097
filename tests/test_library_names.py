"""Small modules and private names that libraries lean on."""

import threading
import warnings

import pytest

import rushlight as torch
from rushlight import futures


def leaf(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


class TestFutures:
    def test_wait_sees_what_another_thread_sets(self):
        future = futures.Future()
        threading.Timer(0.01, future.set_result, (5,)).start()
        assert future.wait() == 5
        assert future.done()

    def test_then_and_callbacks(self):
        future, seen = futures.Future(), []
        chained = future.then(lambda f: f.value() + 1).then(lambda f: f.value() * 2)
        future.add_done_callback(lambda f: seen.append(f.value()))
        future.set_result(1)
        assert chained.wait() == 4
        assert seen == [1]
        assert future.then(lambda f: "late").wait() == "late"

    def test_errors(self):
        future = futures.Future()
        failed = future.then(lambda f: 1 / f.value())
        with pytest.raises(RuntimeError, match="not completed"):
            future.value()
        future.set_result(0)
        with pytest.raises(ZeroDivisionError):
            failed.wait()
        with pytest.raises(RuntimeError, match="completed once"):
            future.set_result(1)
        with pytest.raises(ZeroDivisionError):
            futures.wait_all([future, failed])
        assert futures.collect_all([]).wait() == []
        with pytest.raises(TypeError, match="expected futures, got int"):
            futures.collect_all([future, 3])


class TestConvolutionGradients:
    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_are_those_of_autograd(self, rank):
        x, w = leaf(2, 4, *[7] * rank), leaf(6, 2, *[3] * rank)
        options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
        out = getattr(torch.nn.functional, f"conv{rank}d")(x, w, **options)
        grad = torch.randn(out.shape, dtype=torch.float64)
        expected = torch.autograd.grad(out, (x, w), grad)
        names = torch.nn.grad
        found = getattr(names, f"conv{rank}d_input")(x.shape, w, grad, **options)
        torch.testing.assert_close(found, expected[0])
        assert found.requires_grad
        found = getattr(names, f"conv{rank}d_weight")(x.detach(), w.shape, grad, **options)
        torch.testing.assert_close(found, expected[1])
        assert not found.requires_grad


class TestParallel:
    def test_scatter_and_gather(self):
        parts = torch.nn.parallel.scatter({"x": torch.arange(5), "n": 3}, ["cpu"] * 2)
        assert [p["x"].tolist() for p in parts] == [[0, 1, 2], [3, 4]]
        whole = torch.nn.parallel.gather(parts and [p["x"] for p in parts], "cpu")
        assert whole.tolist() == [0, 1, 2, 3, 4]

    def test_replicas_train_the_module(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        copies = torch.nn.parallel.replicate(model, ["cpu", "cpu"])
        outputs = torch.nn.parallel.parallel_apply(copies, [torch.randn(4, 2)] * 2)
        sum(o.square().sum() for o in outputs).backward()
        assert model[0].weight.grad is not None
        assert not list(copies[0].parameters())

    def test_data_parallel_names(self):
        model = torch.nn.DataParallel(torch.nn.Linear(2, 2))
        state = model.state_dict()
        torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        assert list(state) == ["weight", "bias"]
        assert "" in state._metadata
        with pytest.raises(ValueError, match="process group has not been initialized"):
            torch.nn.parallel.DistributedDataParallel(model)


class TestHub:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "neighbour.py").write_text("N = 3")
        text = "from neighbour import N\ndependencies = ['math']\ndef make(k=1):\n    '''Doc.'''\n"
        (tmp_path / "hubconf.py").write_text(text + "    return N * k\n")
        return tmp_path

    def test_local(self, folder):
        assert torch.hub.load(str(folder), "make", 2, source="local") == 6
        assert torch.hub.list(str(folder)) == ["make"]
        assert torch.hub.help(str(folder), "make") == "Doc."
        with pytest.raises(RuntimeError, match="Cannot find callable nothing"):
            torch.hub.load(str(folder), "nothing", source="local")

    def test_elsewhere(self, folder):
        with pytest.raises(RuntimeError, match="source='local'"):
            torch.hub.load("owner/repo", "make")
        with pytest.raises(FileNotFoundError, match=r"hubconf\.py"):
            torch.hub.load(str(folder / "none"), "make", source="local")
        (folder / "hubconf.py").write_text("dependencies = ['no_such_package']")
        with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
            torch.hub.list(str(folder))

    def test_state_dicts(self, tmp_path):
        path = tmp_path / "w-0123.pt"
        torch.save({"w": torch.ones(1)}, path)
        kept = tmp_path / "kept"
        for _ in range(2):
            found = torch.hub.load_state_dict_from_url(path.as_uri(), str(kept), progress=False)
            assert found["w"].tolist() == [1]
            path.write_bytes(b"changed")  # it is not read again
        with pytest.raises(RuntimeError, match="invalid hash"):
            torch.hub.load_state_dict_from_url(
                path.as_uri(), str(tmp_path / "other"), check_hash=True, progress=False
            )


def test_sizes_are_numbers():
    assert torch.sym_max(2, 3) == 3
    assert torch.sym_sum([1, 2]) == 3
    assert not isinstance(3, torch.SymInt)
    x = torch.tensor([1.0], requires_grad=True)
    torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)).backward()
    assert x.grad.item() == torch.cos(x).item()
    with pytest.raises(RuntimeError, match="single-element"):
        torch.cond(torch.ones(2), torch.sin, torch.cos, (x,))


def test_private_names_of_autograd_and_optim():
    from rushlight.autograd import functional
    from rushlight.optim.lbfgs import _cubic_interpolate, _strong_wolfe

    assert functional._as_tuple((1,)) == (True, (1,))
    x = torch.ones(2, requires_grad=True)
    (own,) = functional._grad_preprocess((x,), create_graph=False, need_graph=True)
    assert own.is_leaf
    assert own.requires_grad
    assert own is not x
    assert functional._tuple_postprocess((1,), False) == 1
    low = _cubic_interpolate(*(torch.tensor(v) for v in (0.0, 1.0, -1.0, 2.0, 1.0, 1.0)))
    assert low.item() == 1
    point, direction = torch.tensor([2.0]), torch.tensor([-4.0])

    def objective(x, t, d):
        there = x + t * d
        return float(there.square().sum()), 2 * there

    loss, *_ = _strong_wolfe(
        objective, point, 1.0, direction, 4.0, torch.tensor([4.0]), torch.tensor(-16.0)
    )
    assert loss < 1e-6
    assert torch.autograd._is_checkpoint_valid()
    saved = torch.autograd.SavedTensor(x.detach())
    saved.unpack()
    x.detach().add_(1)
    assert torch.cuda._initialized is False
    assert torch.xpu.is_current_stream_capturing() is False


def test_names_of_the_core():
    torch._C._log_api_usage_once("event")
    assert torch._C.TensorBase is torch.Tensor
    assert torch._C.DispatchKey.CPU.name == "CPU"
    assert str(torch._C.parse_schema("a::b(Tensor x) -> Tensor")) == "a::b(Tensor x) -> Tensor"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        torch._C.nothing


def test_the_older_vmap():
    from rushlight import _vmap_internals

    f = _vmap_internals._vmap(lambda x: (x * 2, None), allow_none_pass_through=True)
    doubled, none = f(torch.ones(2, 3))
    assert none is None
    assert doubled.tolist() == [[2] * 3] * 2
    with pytest.warns(FutureWarning, match=r"torch\.vmap"):
        _vmap_internals.vmap(torch.sin)


def test_what_is_left_out_says_so():
    assert torch.onnx.is_in_onnx_export() is False
    with pytest.raises(RuntimeError, match="does not write ONNX"):
        torch.onnx.export(None, None, "file")
    with pytest.raises(RuntimeError, match=r"symbolic_trace"):
        torch.export.export(None, ())
    with pytest.raises(ValueError, match="process group has not been initialized"):
        torch.distributed.all_reduce(torch.ones(1))
    with pytest.raises(RuntimeError, match="make one by distribute_tensor"):
        torch.distributed.tensor.DTensor()
    with pytest.raises(RuntimeError, match="leaves this part"):
        torch.distributed.rpc.RRef()


def test_helpers_of_utils():
    from rushlight import _utils

    tensors = [torch.ones(2, 2), torch.zeros(3)]
    flat = _utils._flatten_dense_tensors(tensors)
    back = _utils._unflatten_dense_tensors(flat, tensors)
    assert all(torch.equal(a, b) for a, b in zip(tensors, back, strict=True))
    try:
        {}["x"]
    except KeyError:
        wrapped = _utils.ExceptionWrapper(where="in worker 1")
    with pytest.raises(KeyError, match="in worker 1"):
        wrapped.reraise()
    assert _utils._get_device_index(None, optional=True) == -1
    with warnings.catch_warnings():
        assert _utils._get_device_index("cuda:1") == 1


class TestSwapping:
    def test_everything_changes_places(self):
        a = torch.nn.Parameter(torch.ones(2))
        b = torch.zeros(3, dtype=torch.float64)
        a.grad, a.note = torch.full((2,), 5.0), "a"
        torch.utils.swap_tensors(a, b)
        assert (type(a), a.dtype, a.tolist(), a.requires_grad) == (
            torch.Tensor,
            torch.float64,
            [0] * 3,
            False,
        )
        assert type(b) is torch.nn.Parameter
        assert (b.tolist(), b.grad.tolist(), b.note) == ([1, 1], [5, 5], "a")
        assert not hasattr(a, "note")
        (b * 2).sum().backward()
        assert b.grad.tolist() == [7, 7]

    def test_what_others_refer_to_stays(self):
        import weakref

        a, b = torch.ones(1), torch.ones(1)
        kept = weakref.ref(a)
        with pytest.raises(RuntimeError, match="weakref"):
            torch.utils.swap_tensors(a, b)
        assert kept() is a
        with pytest.raises(RuntimeError, match="no leaf"):
            torch.utils.swap_tensors(b, torch.ones(1, requires_grad=True) * 2)


def test_weak_keys():
    from rushlight.utils.weak import TensorWeakRef, WeakIdKeyDictionary

    x, y = torch.ones(2), torch.ones(2)
    notes = WeakIdKeyDictionary({x: 1, y: 2})
    assert (notes[x], notes[y], len(notes)) == (1, 2, 2)
    assert notes == notes.copy()
    reference = TensorWeakRef(y)
    del y
    assert len(notes) == 1
    assert reference() is None
    del notes[x]
    assert x not in notes
    assert 3 not in notes


def test_dtypes_that_tensors_do_not_have():
    assert repr(torch.float4_e2m1fn_x2) == "torch.float4_e2m1fn_x2"
    assert torch.uint4.itemsize == 1
    assert torch.float32 != torch.quint8
    with pytest.raises(TypeError, match="dtype"):
        torch.ones(2, dtype=torch.uint4)


def test_elements_among_others():
    x = torch.tensor([[1.0, 2.0], [float("nan"), 4.0]])
    many = torch.arange(2.0, 40.0)
    for among in (torch.tensor([2.0, 4.0]), many):
        assert torch.isin(x, among).tolist() == [[False, True], [False, True]]
        assert torch.isin(x, among, invert=True).tolist() == [[True, False], [True, False]]
    assert torch.isin(x, 1).sum().item() == 1
    assert torch.isin(3, many).item()
    assert torch.isin(x, torch.empty(0)).sum().item() == 0
    with pytest.raises(TypeError, match="must be a Tensor"):
        torch.isin(1, 2)


class TestWhatTorchvisionImports:
    def test_models_made_to_be_quantized_compute_with_floats(self):
        from rushlight.ao.quantization import DeQuantStub, QuantStub, convert

        x = torch.tensor([1.0, -3.0], requires_grad=True)
        both = torch.nn.quantized.FloatFunctional()
        model = torch.nn.Sequential(QuantStub(), torch.nn.ReLU(), DeQuantStub())
        both.add_relu(model(x), x).sum().backward()
        assert x.grad.tolist() == [2.0, 0.0]
        assert both.cat([x, x]).shape == (4,)
        assert (both.add(x, x) - both.mul_scalar(x, 2)).sum() == 0
        assert both.matmul(x, x) == both.mul(x, x).sum()
        assert both.add_scalar(x, 1).tolist() == [2.0, -2.0]
        assert list(both.state_dict()) == []
        with pytest.raises(RuntimeError, match="call one of its operations"):
            both(x)
        with pytest.raises(NotImplementedError, match="no quantized numbers"):
            convert(model)

    def test_rules_of_export_are_taken_and_never_asked(self):
        from rushlight.onnx import symbolic_opset11
        from rushlight.onnx.symbolic_helper import parse_args

        @parse_args("v", "f")
        def rule(g, x, scale):
            return symbolic_opset11.unsqueeze(g, x, 0)

        torch.onnx.register_custom_op_symbolic("tests::op", rule, 11)
        with pytest.raises(RuntimeError, match="does not write ONNX"):
            rule(None, None, 1.0)

    def test_bars_of_downloads(self, monkeypatch):
        import sys

        from rushlight.utils import model_zoo

        monkeypatch.setitem(sys.modules, "tqdm", None)
        with model_zoo.tqdm(total=4, unit="B") as bar:
            bar.update(3)
            bar.update(1)
        assert bar.n == 4

    def test_annotations(self):
        from rushlight.jit.annotations import BroadcastingList2, List

        def pool(x, size: BroadcastingList2[int], more: List[int]):
            return x

        assert torch.jit._script_if_tracing(pool)(1, 2, []) == 1
        assert torch._dynamo.utils.is_compile_supported("cuda") is False
        assert torch._custom_ops.get_ctx is torch.library.get_ctx


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_combine_from_the_first_element(count, reverse):
    from rushlight._higher_order_ops.associative_scan import associative_scan

    def step(a, b):
        return a[0] * b[0], b[0] * a[1] + b[1]

    factor, term = leaf(2, count), leaf(2, count)
    found = associative_scan(step, (factor, term), 1, reverse)
    order = range(count)[::-1] if reverse else range(count)
    now, expected = None, {}
    for i in order:
        here = factor[:, i], term[:, i]
        now = here if now is None else step(now, here)
        expected[i] = now
    for k in (0, 1):
        whole = torch.stack([expected[i][k] for i in range(count)], 1)
        torch.testing.assert_close(found[k], whole)
    grads = torch.autograd.grad(found[1].sum(), (factor, term), allow_unused=True)
    wanted = torch.autograd.grad(
        sum(pair[1].sum() for pair in expected.values()), (factor, term), allow_unused=True
    )
    torch.testing.assert_close(grads[1], wanted[1])
    if count > 1:
        torch.testing.assert_close(grads[0], wanted[0])


def test_scans_say_what_they_cannot_do():
    from rushlight._higher_order_ops.associative_scan import associative_scan

    with pytest.raises(ValueError, match="same size"):
        associative_scan(lambda a, b: b, (leaf(2), leaf(3)), 0)
    with pytest.raises(ValueError, match="combine_mode"):
        associative_scan(torch.add, leaf(2), 0, combine_mode="other")
    with pytest.raises(ValueError, match="at least one dimension"):
        associative_scan(torch.add, leaf(), 0)


class TestNamesOfTheCore:
    def test_transforms_are_noticed(self):
        active = torch._C._are_functorch_transforms_active
        seen = []

        def note(x):
            seen.append((active(), torch._C._functorch.is_batchedtensor(x)))
            return x.sum()

        x = torch.ones(2, 2)
        note(x)
        torch.vmap(note)(x)
        torch.func.grad(note)(x)
        torch.func.jvp(note, (x,), (x,))
        torch.func.jacrev(note)(x)
        with torch.no_grad(), torch.autograd.forward_ad.dual_level():
            note(x)
        assert seen == [
            (False, False), (True, True), (True, False), (True, False), (True, False),
            (False, False),
        ]  # fmt: skip
        assert not torch._C._functorch.is_legacy_batchedtensor(x)

    def test_text_of_subclasses(self):
        from rushlight import _tensor_str

        x = torch.tensor([1.5, 2.0], dtype=torch.float64)
        body = _tensor_str._tensor_str(x, 6)
        text = _tensor_str._add_suffixes("Index(" + body, ["n=3"], 6, force_newline=False)
        assert text == "Index([1.5000, 2.0000], n=3)"
        text = _tensor_str._add_suffixes("Index(" + body, ["n=3"], 6, force_newline=True)
        assert text == "Index([1.5000, 2.0000],\n      n=3)"
        assert (
            _tensor_str._str_intern(x, tensor_contents="...") == "tensor(..., dtype=torch.float64)"
        )

    def test_smaller_ones(self):
        from rushlight.nn.modules.transformer import _get_activation_fn
        from rushlight.optim.optimizer import _get_capturable_supported_devices

        assert _get_activation_fn("gelu") is torch.nn.functional.gelu
        assert _get_capturable_supported_devices() == ["cuda"]
        assert torch._C._get_default_device() == "cpu"
        assert torch.legacy_contiguous_format is torch.contiguous_format
        assert torch.distributed.Backend.default_device_backend_map["cpu"] == "gloo"
        assert torch._jit_internal._copy_to_script_wrapper(len) is len

    def test_a_profiler_that_records_is_noticed(self):
        enabled = torch.autograd._profiler_enabled
        assert not enabled()
        with torch.autograd.profiler.profile():
            assert enabled()
            with pytest.raises(RuntimeError, match="leave the block"):
                torch.autograd._disable_profiler()
        assert not enabled()
        from rushlight.profiler import ProfilerAction
        from rushlight.profiler.profiler import _default_schedule_fn

        assert _default_schedule_fn(7) is ProfilerAction.RECORD

    def test_getters_of_other_tensors(self):
        x = torch.ones(2, requires_grad=True)
        x.sum().backward()
        found = [get(x) for get in torch.overrides.get_default_nowrap_functions()]
        assert sum(each is x.grad for each in found) == 2
        weight = torch.nn.Linear(2, 2).weight
        torch.nn.init._no_grad_uniform_(weight, 3, 4)
        assert 3 <= weight.min() <= weight.max() <= 4
        assert weight.is_leaf
