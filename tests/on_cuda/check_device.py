"""The device itself: tensors that come and go, streams, events, memory, random numbers, errors."""

import copy
import io
import pickle
import threading

import pytest

import rushlight as torch


def test_it_is_there():
    assert torch.cuda.is_available()
    assert torch.cuda.current_device() == 0
    assert torch.cuda.get_device_name()
    assert torch.cuda.get_device_capability() >= (7, 0)
    facts = torch.cuda.get_device_properties(0)
    assert facts.total_memory > 0
    assert facts.name in repr(facts)


ALL = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8,
       torch.bool, torch.complex64]  # fmt: skip


@pytest.mark.parametrize("dtype", ALL)
def test_there_and_back(dtype):
    x = (torch.arange(12) % 5).to(dtype).reshape(3, 4)
    for t in (x, x.T, x[1:, ::2], x[0, 0], x[:0], x.expand(2, 3, 4)):
        there = t.to("cuda")
        assert there.is_cuda
        assert there.device == torch.device("cuda", 0)
        assert torch.equal(there.cpu(), t)
        assert there.stride() == t.to("cpu", copy=True).stride()
        assert there.to("cuda") is there
        back = torch.empty_like(t).copy_(there) if t.numel() == t.untyped_storage().nbytes() else t
        assert torch.equal(back, t)


def test_factories():
    made = [
        torch.zeros(2, 3, device="cuda"), torch.ones(2, device="cuda"),
        torch.full((2,), 3.0, device=0), torch.arange(5, device="cuda:0"),
        torch.linspace(0, 1, 4, device="cuda"),
        torch.eye(3, device="cuda"), torch.tensor([[1, 2]], device="cuda"),
        torch.rand(2, device="cuda"), torch.randn(3, device="cuda"),
        torch.randint(0, 5, (2, 2), device="cuda"), torch.tril_indices(3, 3, device="cuda"),
    ]  # fmt: skip
    assert all(t.device == torch.device("cuda:0") for t in made)
    assert made[2].tolist() == [3.0, 3.0]
    assert made[3].tolist() == [0, 1, 2, 3, 4]
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda


def test_printing_and_numbers():
    x = torch.tensor([1.0, 2.5], device="cuda")
    assert repr(x) == "tensor([1.0000, 2.5000], device='cuda:0')"
    assert x[1].item() == 2.5
    assert float(x.sum()) == 3.5
    assert bool((x > 0).all())
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        x.numpy()


def test_numbers_of_the_host_go_along():
    x = torch.ones(3, device="cuda")
    assert (x * torch.tensor(2.0) + 1).tolist() == [3.0, 3.0, 3.0]
    assert torch.where(x > 0, x, torch.tensor(0.0)).is_cuda
    zero = torch.tensor(1.5, device="cuda")
    assert (zero + torch.tensor(1.0)).item() == 2.5
    assert (torch.tensor(1.0) + zero).is_cuda
    assert (x * zero).tolist() == [1.5, 1.5, 1.5]
    assert (x.half() * zero).dtype == torch.float16
    with pytest.raises(RuntimeError, match="at least two devices"):
        x + torch.ones(3)


def test_layouts():
    x = torch.arange(24.0).reshape(2, 3, 4)
    y = x.cuda()
    assert torch.equal((y.permute(2, 0, 1) + y.permute(2, 0, 1)).cpu(), (2 * x).permute(2, 0, 1))
    assert torch.equal((y[:, :1] * y[..., ::2].sum(-1, keepdim=True)).cpu(),
                       x[:, :1] * x[..., ::2].sum(-1, keepdim=True))  # fmt: skip
    y[:, 1] = 7
    assert y[:, 1].tolist() == [[7.0] * 4] * 2
    y[0].mul_(2)
    assert y[0, 0].tolist() == [0.0, 2.0, 4.0, 6.0]
    y[torch.tensor([1, 0], device="cuda"), 2] = 5
    assert y[:, 2].tolist() == [[5.0] * 4] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8, torch.float16])
def test_turned_copies(dtype):
    x = (torch.arange(3 * 40 * 50) % 251).to(dtype).reshape(3, 40, 50)
    for t in (x.transpose(1, 2), x.transpose(0, 2), x.permute(1, 2, 0), x[:, ::2].transpose(1, 2)):
        assert torch.equal(t.cuda().contiguous().cpu(), t)
        there = x.cuda().as_strided(t.shape, t.stride(), t.storage_offset())
        assert torch.equal(there.contiguous().cpu(), t)
        assert torch.equal((there + there).cpu(), t + t)


def test_the_last_of_equal_indices_stays():
    torch.manual_seed(0)
    index = torch.randint(-50, 50, (300,))
    for shape in ((50,), (50, 3), (2, 50, 5)):
        x = torch.zeros(shape)
        dim = 1 if len(shape) == 3 else 0
        source = torch.randn([*shape[:dim], 300, *shape[dim + 1 :]])
        wrapped = index % 50
        found = x.cuda().index_copy(dim, wrapped.cuda(), source.cuda())
        assert torch.equal(found.cpu(), x.index_copy(dim, wrapped, source))
    # An assignment writes one of the values of a place, as in PyTorch: which one is left open.
    there = torch.zeros(50, device="cuda")
    there[index.cuda()] = torch.arange(300.0, device="cuda")
    chosen = there.cpu().long()
    assert torch.equal(index[chosen] % 50, torch.arange(50))


def test_long_rows_are_scanned_by_many():
    torch.manual_seed(1)
    for n in (16_384, 30_001):
        whole = torch.randint(-9, 9, (2, n))
        assert torch.equal(whole.cuda().cumsum(-1).cpu(), whole.cumsum(-1))
        x = torch.randn(n, dtype=torch.float64)
        assert torch.allclose(x.cuda().cumsum(0).cpu(), x.cumsum(0))
        assert torch.allclose(x.cuda().logcumsumexp(0).cpu(), x.logcumsumexp(0))
        for f in (torch.cummax, torch.cummin):
            for row in (x, whole[0]):
                values, places = f(row.cuda(), 0)
                assert torch.equal(values.cpu(), f(row, 0)[0])
                assert torch.equal(places.cpu(), f(row, 0)[1])
        y = x.cuda().requires_grad_()
        y.cumsum(0).sum().backward()
        assert torch.equal(y.grad.cpu(), torch.arange(n, 0, -1, dtype=torch.float64))


def test_long_products():
    torch.manual_seed(2)
    for n in (16_385, 40_000):
        a, b = torch.randn(2, n, dtype=torch.float64)
        assert torch.allclose(a.cuda().dot(b.cuda()).cpu(), a.dot(b))
        a, b = torch.randint(-9, 9, (2, n))
        assert torch.equal(a.cuda().dot(b.cuda()).cpu(), a.dot(b))


def test_evenly_spaced_numbers():
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32):
        for start, end, step in ((0, 10, 1), (5, -7, -2), (0, 3000, 7)):
            here = torch.arange(start, end, step, dtype=dtype)
            there = torch.arange(start, end, step, dtype=dtype, device="cuda")
            assert torch.equal(there.cpu(), here)
        for start, end, steps in ((0, 1, 7), (3, -5, 10), (2, 9, 1), (0, 1, 0)):
            here = torch.linspace(start, end, steps, dtype=dtype)
            there = torch.linspace(start, end, steps, dtype=dtype, device="cuda")
            assert torch.equal(there.cpu(), here)
    there = torch.arange(0.5, 3, 0.1, device="cuda")
    assert torch.equal(there.cpu(), torch.arange(0.5, 3, 0.1))


def test_numbers_of_the_host_fill():
    x = torch.zeros(4, 3, device="cuda")
    x[:, 1] = 2.5
    x[0].copy_(torch.tensor(7.0))
    x[1:, 2].copy_(torch.tensor(3).expand(3))
    assert x.tolist() == [[7.0] * 3] + [[0.0, 2.5, 3.0]] * 3
    z = torch.full((2,), 1 + 2j, device="cuda")
    assert z.tolist() == [1 + 2j] * 2


def test_saving():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert twin.is_cuda
        assert torch.equal(twin.cpu(), x.cpu())
    file = io.BytesIO()
    torch.save({"w": x, "view": x[1]}, file)
    for where in (None, "cpu", "cuda"):
        file.seek(0)
        found = torch.load(file, map_location=where)
        assert found["w"].is_cuda == (where != "cpu")
        assert torch.equal(found["w"].cpu(), x.cpu())
    layer = torch.nn.Linear(3, 2).cuda()
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(torch.load(file, map_location="cpu"))
    assert torch.equal(other.weight, layer.weight.cpu())


def test_gradients_cross_devices():
    x = torch.ones(3, requires_grad=True)
    (x.cuda() * torch.arange(3.0, device="cuda")).sum().cpu().backward()
    assert x.grad.is_cpu
    assert x.grad.tolist() == [0.0, 1.0, 2.0]


class TestStreams:
    def test_cuda_is_built(self):
        assert torch.backends.cuda.is_built()

    def test_streams_come_from_a_pool(self):
        made = [torch.cuda.Stream().cuda_stream for _ in range(100)]
        assert len(set(made)) == 32
        assert len(set(made[:32])) == 32
        assert torch.cuda.Stream(priority=-1).cuda_stream not in made

    def test_streams_and_events(self):
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        s = torch.cuda.Stream()
        x = torch.arange(1000.0, device="cuda")
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            assert torch.cuda.current_stream() == s
            y = x * 2
            done = s.record_event()
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        done.wait()
        y.record_stream(torch.cuda.current_stream())
        assert y.sum().item() == 999000.0
        s.synchronize()
        assert s.query()
        assert done.query()

    def test_times(self):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.ones(1000, device="cuda").exp_()
        end.record()
        end.synchronize()
        assert start.elapsed_time(end) > 0

    def test_threads_have_their_own(self):
        seen = []
        with torch.cuda.stream(torch.cuda.Stream()):
            thread = threading.Thread(
                target=lambda: seen.append(
                    (torch.cuda.current_stream(), (torch.ones(4, device="cuda") * 3).sum().item())
                )
            )
            thread.start()
            thread.join()
        assert seen == [(torch.cuda.default_stream(), 12.0)]


class TestMemory:
    def test_what_is_freed_is_used_again(self):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        x = torch.empty(1 << 20, device="cuda")
        assert torch.cuda.memory_allocated() - before == 4 << 20
        place = x.data_ptr()
        del x
        assert torch.cuda.memory_allocated() == before
        y = torch.empty(1 << 20, device="cuda")
        assert y.data_ptr() == place
        del y
        reserved = torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() <= reserved

    def test_blocks_are_cut_and_joined(self):
        torch.cuda.empty_cache()
        reserved = torch.cuda.memory_reserved()
        parts = [torch.empty(1 << 19, device="cuda") for _ in range(8)]
        assert len({t.data_ptr() for t in parts}) == 8
        del parts
        whole = torch.empty(1 << 22, device="cuda")
        assert torch.cuda.memory_reserved() - reserved <= 20 << 20
        del whole

    def test_peaks(self):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        x = torch.empty(1 << 20, device="cuda")
        del x
        assert torch.cuda.max_memory_allocated() - before == 4 << 20
        assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == before + (4 << 20)
        assert "allocated" in torch.cuda.memory_summary()

    def test_a_limit(self):
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(0.5)
        try:
            with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory"):
                torch.empty(total * 6 // 10, dtype=torch.uint8, device="cuda")
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        assert torch.ones(2, device="cuda").sum().item() == 2

    def test_pinned(self):
        x = torch.arange(5.0).pin_memory()
        assert x.is_pinned()
        assert x.pin_memory() is x
        assert x.to("cuda", non_blocking=True).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


class TestRandom:
    def test_seeds(self):
        torch.manual_seed(5)
        a = torch.randn(100, device="cuda")
        torch.cuda.manual_seed(5)
        assert torch.equal(torch.randn(100, device="cuda"), a)
        state = torch.cuda.get_rng_state()
        b = torch.rand(10, device="cuda")
        torch.cuda.set_rng_state(state)
        assert torch.equal(torch.rand(10, device="cuda"), b)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_the_numbers_are_those_of_the_cpu(self, dtype):
        for fill in (
            lambda t, g: t.uniform_(-1, 2, generator=g), lambda t, g: t.normal_(generator=g),
            lambda t, g: t.exponential_(generator=g), lambda t, g: t.bernoulli_(0.3, generator=g),
            lambda t, g: t.random_(0, 1000, generator=g),
        ):  # fmt: skip
            here = fill(torch.empty(77, dtype=dtype), torch.Generator().manual_seed(9))
            there = fill(torch.empty(77, dtype=dtype, device="cuda"),
                         torch.Generator("cuda").manual_seed(9))  # fmt: skip
            assert torch.allclose(here, there.cpu(), rtol=1e-2 if dtype == torch.bfloat16 else 1e-5)

    def test_a_generator_of_the_cpu_is_refused(self):
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
            torch.rand(3, device="cuda", generator=torch.Generator())


class TestErrors:
    def test_indices_are_found_out_at_the_next_wait(self):
        x, at = torch.arange(4.0, device="cuda"), torch.tensor([0, 9], device="cuda")
        with pytest.raises(IndexError, match="index 9 is out of bounds for dimension with size 4"):
            x[at].sum().item()
        assert x.sum().item() == 6.0

    def test_the_line_is_named(self):
        table = torch.ones(4, 3, device="cuda")
        ids = torch.tensor([1, 9], device="cuda")
        found = torch.nn.functional.embedding(ids, table)  # the line that is named
        for _ in range(20):
            found = found + table[torch.tensor([0, 1], device="cuda")]
        with pytest.raises(IndexError, match=r"index 9 is out of.*check_device\.py:\d+") as e:
            torch.cuda.synchronize()
        line = int(str(e.value).rpartition(":")[2].rstrip(")"))
        with open(__file__) as file:
            assert "the line that is named" in file.read().splitlines()[line - 1]
        assert (table + 1).sum().item() == 24

    def test_targets_too(self):
        logits = torch.zeros(2, 3, device="cuda")
        with pytest.raises(IndexError, match="Target 7 is out of bounds"):
            torch.nn.functional.cross_entropy(logits, torch.tensor([0, 7], device="cuda")).item()

    def test_what_is_missing_says_so(self):
        x = torch.ones(4, 4, dtype=torch.complex64, device="cuda")
        with pytest.raises(NotImplementedError, match="ComplexFloat' on the device 'cuda'"):
            torch.nn.functional.dropout(x)

    @pytest.mark.parametrize("dtype", [torch.uint16, torch.float8_e4m3fn, torch.complex32])
    def test_stored_types_are_moved_and_converted(self, dtype):
        wide = torch.complex64 if dtype.is_complex else torch.float32
        x = torch.tensor([[1, 2], [4, 8]]).to(dtype)
        y = x.cuda()
        assert torch.equal(y.t().contiguous().cpu(), x.t())
        assert torch.equal(torch.cat([y, y[:1]])[torch.tensor([2, 1])].cpu(), x[[0, 1]])
        assert torch.equal(y.to(wide).cpu(), x.to(wide))
        assert torch.equal(y.to(wide).to(dtype).cpu(), x)
        assert y.masked_fill(torch.tensor([True, False], device="cuda"), 1)[1, 0].item() == 1
        with pytest.raises(NotImplementedError, match="on the device 'cuda'"):
            y * y
