"""Memory formats lay tensors out and change nothing else."""

import copy
import pickle

import pytest

import rushlight as torch
from rushlight.nn import functional as F

IMAGES = (2, 3, 4, 5)
VOLUMES = (2, 3, 4, 5, 6)


def channels_last(x):
    return x.contiguous(memory_format=torch.channels_last)


class TestLayout:
    def test_channels_lie_innermost(self):
        x = torch.arange(120.0).reshape(IMAGES)
        y = channels_last(x)
        assert y.shape == x.shape
        assert torch.equal(x, y)
        assert y.stride() == (60, 1, 15, 3)
        assert y.is_contiguous(memory_format=torch.channels_last)
        assert not y.is_contiguous()
        assert channels_last(y) is y
        flat = y.permute(0, 2, 3, 1).reshape(-1)
        assert flat.data_ptr() == y.data_ptr()
        assert flat[:3].tolist() == [0.0, 20.0, 40.0]

    def test_volumes(self):
        x = torch.arange(720.0).reshape(VOLUMES)
        y = x.to(memory_format=torch.channels_last_3d)
        assert torch.equal(x, y)
        assert y.stride() == (360, 1, 90, 18, 3)
        assert y.is_contiguous(memory_format=torch.channels_last_3d)
        assert not y.is_contiguous(memory_format=torch.channels_last)

    def test_sizes_of_one_leave_the_answer_open(self):
        x = torch.zeros(2, 1, 4, 5)
        assert x.is_contiguous()
        assert x.is_contiguous(memory_format=torch.channels_last)
        assert channels_last(x) is x
        y = x.to(memory_format=torch.channels_last)  # which goes by the strides
        assert y.stride() == (20, 1, 5, 1)
        assert y.is_contiguous()
        assert y.clone().stride() == y.stride()

    def test_no_elements(self):
        assert torch.empty(2, 0, 4, 5, memory_format=torch.channels_last).stride() == (0, 1, 0, 0)
        assert not torch.empty(0, 3, 4, 5).is_contiguous(memory_format=torch.channels_last)

    @pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16, torch.complex64])
    def test_every_dtype(self, dtype):
        x = torch.arange(120).reshape(IMAGES).to(dtype)
        assert torch.equal(channels_last(x), x)
        assert torch.equal(x.double(memory_format=torch.channels_last), x.double())

    def test_factories(self):
        x = torch.zeros(IMAGES)
        for make in (torch.zeros_like, torch.ones_like, torch.rand_like, torch.empty_like):
            assert make(x, memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
            assert make(channels_last(x)).stride() == (60, 1, 15, 3)
            rows = make(channels_last(x), memory_format=torch.contiguous_format)
            assert rows.stride() == (60, 20, 5, 1)
        filled = torch.full_like(x, 7.0, memory_format=torch.channels_last)
        assert filled.stride() == (60, 1, 15, 3)
        assert torch.equal(filled, x + 7)

    def test_resizing(self):
        x = torch.zeros(3, 2).t()
        assert x.resize_(2, 3).stride() == (1, 2)
        assert x.resize_(IMAGES, memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
        like = torch.zeros(1).resize_as_(x, memory_format=torch.preserve_format)
        assert like.stride() == (60, 1, 15, 3)

    def test_copies_and_pickles_keep_it(self):
        x = channels_last(torch.rand(IMAGES))
        for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert torch.equal(x, y)
            assert y.stride() == x.stride()
        for name in ("channels_last", "channels_last_3d", "contiguous_format", "preserve_format"):
            form = getattr(torch, name)
            assert pickle.loads(pickle.dumps(form)) is form
            assert copy.deepcopy(form) is form
            assert isinstance(form, torch.memory_format)
            assert repr(form) == f"torch.{name}"

    def test_modules_keep_their_parameters(self):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 2), torch.nn.Linear(4, 4))
        weight = model[0].weight
        assert model.to(memory_format=torch.channels_last)[0].weight is weight
        assert weight.stride() == (12, 1, 6, 3)
        assert weight.requires_grad
        assert model[1].weight.stride() == (4, 1)

    @pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "NAdam"])
    @pytest.mark.parametrize("foreach", [False, True])
    def test_optimizers_step_in_any_format(self, name, foreach):
        options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
        start, push = torch.rand(4, 3, 2, 5), torch.rand(4, 3, 2, 5)
        ends = []
        for change in (torch.clone, channels_last):
            weight = torch.nn.Parameter(change(start))
            optimizer = getattr(torch.optim, name)([weight], lr=0.1, foreach=foreach, **options)
            for gradient in (push, channels_last(push), -push):
                weight.grad = gradient.clone()
                torch.nn.utils.clip_grad_norm_([weight], 1.0)
                optimizer.step()
            ends.append(weight.detach())
        torch.testing.assert_close(ends[1], ends[0])
        assert ends[1].stride() == (30, 1, 15, 3)

    def test_files_keep_it(self, tmp_path):
        x = channels_last(torch.rand(IMAGES))
        torch.save({"x": x, "format": torch.channels_last_3d}, tmp_path / "x.pt")
        read = torch.load(tmp_path / "x.pt")
        assert torch.equal(read["x"], x)
        assert read["x"].stride() == x.stride()
        assert read["format"] is torch.channels_last_3d


class TestErrors:
    @pytest.mark.parametrize(
        ("op", "call"),
        [
            ("contiguous", lambda x, f: x.contiguous(memory_format=f)),
            ("clone", lambda x, f: x.clone(memory_format=f)),
            ("to", lambda x, f: x.to(memory_format=f)),
            ("empty", lambda x, f: torch.empty(x.shape, memory_format=f)),
            ("empty_like", lambda x, f: torch.empty_like(x, memory_format=f)),
            ("full_like", lambda x, f: torch.full_like(x, 1, memory_format=f)),
            ("rand_like", lambda x, f: torch.rand_like(x, memory_format=f)),
            ("randint_like", lambda x, f: torch.randint_like(x, 3, memory_format=f)),
            ("resize_", lambda x, f: x.resize_(2, 3, memory_format=f)),
        ],
    )
    def test_wrong_ranks_and_types(self, op, call):
        x = torch.zeros(2, 3)
        with pytest.raises(RuntimeError, match=f"^{op}: required rank 4 tensor to use channels_l"):
            call(x, torch.channels_last)
        with pytest.raises(RuntimeError, match=f"^{op}: required rank 5 tensor to use .*_3d form"):
            call(x, torch.channels_last_3d)
        with pytest.raises(TypeError, match=rf"^{op}\(\): argument 'memory_format' must be"):
            call(x, "channels_last")
        assert x.shape == (2, 3)
        assert x.stride() == (3, 1)

    def test_modules_refuse_what_is_no_format(self):
        with pytest.raises(TypeError, match=r"^to\(\): argument 'memory_format' must be torch.mem"):
            torch.nn.Linear(2, 2).to(memory_format="channels_last")

    def test_nothing_to_preserve(self):
        with pytest.raises(RuntimeError, match=r"^empty: unsupported memory format Preserve"):
            torch.empty(2, memory_format=torch.preserve_format)
        with pytest.raises(RuntimeError, match=r"^contiguous: preserve memory format is unsupport"):
            torch.zeros(2, 3).t().contiguous(memory_format=torch.preserve_format)
        with pytest.raises(RuntimeError, match=r"^convert_conv2d_weight_memory_format: unsupp"):
            torch.nn.utils.convert_conv2d_weight_memory_format(
                torch.nn.Conv2d(1, 1, 1), torch.preserve_format
            )


class TestDerivatives:
    @pytest.mark.parametrize(
        "change",
        [
            channels_last,
            lambda x: x.clone(memory_format=torch.channels_last),
            lambda x: x.to(memory_format=torch.channels_last),
            lambda x: channels_last(x).contiguous(),
        ],
    )
    def test_gradients_flow_through(self, change):
        x = torch.rand(IMAGES, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: change(x) ** 2, x)
        assert torch.autograd.gradgradcheck(lambda x: change(x) ** 3, x)
        _, tangent = torch.func.jvp(change, (x.detach(),), (torch.ones(IMAGES).double(),))
        assert torch.equal(tangent, torch.ones(IMAGES).double())

    def test_strides_of_zero_without_elements_are_no_overlap(self):
        x = torch.empty(2, 0, 4, 5, memory_format=torch.channels_last, dtype=torch.float64)
        assert torch.autograd.gradcheck(lambda x: x.sum(1), x.requires_grad_())

    def test_each_sample_of_vmap_has_the_format(self):
        x = torch.rand(3, *IMAGES)

        def sample(image):
            y = channels_last(image)
            assert y.is_contiguous(memory_format=torch.channels_last)
            assert torch.empty_like(y, memory_format=torch.channels_last).stride() == y.stride()
            return y.to(torch.float64, memory_format=torch.channels_last)

        y = torch.vmap(sample)(x)
        assert torch.equal(y, x.double())
        assert y.stride() == (120, 60, 1, 15, 3)
        assert torch.equal(torch.vmap(channels_last, in_dims=4)(x), x.movedim(4, 0))


OPS = {
    "conv2d": lambda x, w: F.conv2d(x, w, padding=1),
    "conv2d_strided": lambda x, w: F.conv2d(x, w, stride=2, dilation=2, padding=2),
    "conv2d_pointwise": lambda x, w: F.conv2d(x, w[:, :, :1, :1]),
    "conv2d_grouped": lambda x, w: F.conv2d(x, w[:, :2], groups=2),
    "conv_transpose2d": lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1), stride=2),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w[:4, 0, 0, 0], training=True),
    "batch_norm_eval": lambda x, w: F.batch_norm(
        x, w[0, :, 0, 0].detach(), w[0, :, 1, 1].detach() ** 2
    ),
    "group_norm": lambda x, w: F.group_norm(x, 2),
    "layer_norm": lambda x, w: F.layer_norm(x, x.shape[1:]),
    "max_pool2d": lambda x, w: F.max_pool2d(x, 3, stride=2, padding=1),
    "avg_pool2d": lambda x, w: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x, w: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive_max_pool2d": lambda x, w: F.adaptive_max_pool2d(x, (3, 2)),
    "interpolate_nearest": lambda x, w: F.interpolate(x, scale_factor=2),
    "interpolate_bilinear": lambda x, w: F.interpolate(x, (5, 9), mode="bilinear"),
    "interpolate_bicubic": lambda x, w: F.interpolate(x, (5, 9), mode="bicubic"),
    "pad": lambda x, w: F.pad(x, (1, 2, 0, 1), value=3.0),
    "pad_reflect": lambda x, w: F.pad(x, (1, 2, 2, 1), mode="reflect"),
    "pad_circular": lambda x, w: F.pad(x, (1, 2, 2, 1), mode="circular"),
    "pixel_shuffle": lambda x, w: F.pixel_shuffle(x, 2),
    "unfold": lambda x, w: F.unfold(x, 3, padding=1),
    "softmax": lambda x, w: F.softmax(x, 1),
    "cross_entropy": lambda x, w: F.cross_entropy(x, torch.ones(2, 8, 7, dtype=torch.int64)),
    "sum": lambda x, w: x.sum((2, 3)) * x.amax((2, 3)),
    "gelu": lambda x, w: F.gelu(x) * x,
    "flatten": lambda x, w: x.flatten(1).cumsum(1),
}


ROWS = {"layer_norm", "pad_circular", "softmax"}  # as with PyTorch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("op", OPS)
def test_ops_do_not_see_the_layout(op, dtype):
    torch.manual_seed(0)
    image, filters = torch.randn(2, 4, 8, 7, dtype=dtype), torch.randn(6, 4, 3, 3, dtype=dtype)
    outcomes = []
    for change in (torch.clone, lambda x: x.clone(memory_format=torch.channels_last)):
        x, w = change(image).requires_grad_(), change(filters).requires_grad_()
        y = OPS[op](x, w)
        torch.manual_seed(1)
        weights = torch.randn(y.shape, dtype=dtype)
        (change(weights) if y.dim() == 4 else weights).mul(y).sum().backward()
        outcomes.append((y, x.grad, w.grad))
    for rows, channels in zip(*outcomes, strict=True):
        if rows is None:
            assert channels is None
        else:
            torch.testing.assert_close(channels, rows)
    y, x_grad, w_grad = outcomes[1]
    if y.dim() == 4:
        assert y.is_contiguous(memory_format=torch.channels_last) is (op not in ROWS)
    for grad in (x_grad, w_grad):
        assert grad is None or grad.is_contiguous(memory_format=torch.channels_last)


class TestResults:
    """Strides of results follow those of the arguments by PyTorch's rules."""

    def test_a_network_keeps_its_format(self):
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
            torch.nn.Dropout(), torch.nn.MaxPool2d(2), torch.nn.Upsample(scale_factor=2),
            torch.nn.ZeroPad2d(1), torch.nn.GroupNorm(2, 8), torch.nn.AvgPool2d(2),
            torch.nn.Dropout2d(), torch.nn.ConvTranspose2d(8, 4, 2),
        ).to(memory_format=torch.channels_last)  # fmt: skip
        x = channels_last(torch.rand(2, 3, 8, 6)).requires_grad_()
        y = x
        for layer in model:
            y = layer(y)
            assert y.is_contiguous(memory_format=torch.channels_last), layer
            assert not y.is_contiguous(), layer
        y.sum().backward()
        for leaf in (x, *model.parameters()):
            assert leaf.grad.stride() == leaf.stride()

    @pytest.mark.parametrize("op", ["sum", "cat", "stack", "where", "max_pool", "maximum"])
    def test_volumes_keep_theirs(self, op):
        x = torch.rand(VOLUMES).contiguous(memory_format=torch.channels_last_3d)
        y = {
            "sum": lambda: x + torch.ones(3, 1, 1, 1),
            "cat": lambda: torch.cat([x, x], 1),
            "stack": lambda: torch.stack([x, x]).flatten(0, 1),
            "where": lambda: torch.where(x > 0.5, x, 0.0),
            "max_pool": lambda: F.max_pool3d(x, 2),
            "maximum": lambda: torch.maximum(x[:1], x),
        }[op]()
        assert y.is_contiguous(memory_format=torch.channels_last_3d)

    def test_the_first_operand_that_tells_dimensions_apart_decides(self):
        rows, columns = torch.rand(4, 5), torch.rand(5, 4).t()
        assert (rows + columns).stride() == (5, 1)
        assert (columns + rows).stride() == (1, 4)
        assert (columns[:1] + columns[:, :1]).stride() == (5, 1)
        assert (torch.rand(3, 1, 1) * torch.rand(5, 4).t()).stride() == (20, 1, 4)
        assert torch.rand(6, 4, 2).permute(2, 1, 0)[::2, :3].exp().stride() == (1, 1, 3)

    def test_sorting_keeps_the_strides(self):
        x = torch.rand(4, 3, 2).permute(1, 2, 0)
        for dim in range(3):
            values, indices = x.sort(dim)
            assert values.stride() == indices.stride() == x.stride()
            assert torch.equal(values, x.contiguous().sort(dim).values)
            assert torch.equal(x.gather(dim, indices), values)

    def test_indexing_keeps_the_order_of_the_dimensions(self):
        x, at = torch.rand(5, 4, 3).permute(2, 1, 0), torch.tensor([2, 0, 1, 2])
        y = x[at]
        assert y.stride() == (20, 1, 4)
        assert torch.equal(y, x.contiguous()[at])
        assert torch.equal(x[at[:2], :, at[2:, None]], x.contiguous()[at[:2], :, at[2:, None]])
        assert torch.equal(x[:, at[None, :3]], x.contiguous()[:, at[None, :3]])

    def test_a_slice_is_replaced_in_a_copy_with_the_same_strides(self):
        x = torch.rand(4, 6)[:, ::2]
        y = torch.select_scatter(x, torch.zeros(4), 1, 0)
        assert y.stride() == x.stride() == (6, 2)
        assert torch.equal(y[:, 1:], x[:, 1:])
        assert torch.slice_scatter(
            torch.rand(1, 3).expand(2, 3), torch.zeros(1, 3), 0, 0, 1
        ).stride() == (3, 1)

    def test_masked_fill_gives_rows(self):
        x = torch.rand(4, 3).t()
        assert x.masked_fill(x > 0.5, 0.0).stride() == (4, 1)
        assert x.clone().masked_fill_(x > 0.5, 0.0).stride() == (1, 3)

    def test_new_dimensions_of_size_one(self):
        x = torch.rand(3, 4).t()
        assert x.expand(1, 4, 3).stride() == (4, 1, 4)
        assert x.expand(2, 1, 4, 3).stride() == (0, 4, 1, 4)
        assert torch.rand(3, 1).expand(1, 3, 5).stride() == (3, 1, 0)
        assert torch.rand(1, 3).t().view(3, 1, 1).stride() == (1, 3, 3)

    def test_an_out_that_is_resized_lies_as_a_result_would(self):
        x = torch.rand(3, 4).t()
        out = torch.empty(0)
        torch.exp(x, out=out)
        assert out.stride() == (1, 4)
        assert torch.equal(out, x.exp())
        images = channels_last(torch.rand(IMAGES))
        assert channels_last(torch.cat([images, images], out=torch.empty(0))).stride()[1] == 1
        assert torch.exp(x, out=torch.empty(4, 3)).stride() == (3, 1)

    def test_einsum_gives_what_can_be_viewed(self):
        a, b = torch.rand(2, 3, 4, 5), torch.rand(2, 3, 6)
        y = torch.einsum("nchw,ncz->nzhw", a, b)
        assert y.is_contiguous()
        torch.testing.assert_close(y, torch.einsum("nzc,nchw->nzhw", b.mT, a))
        assert torch.einsum("i,j,k->kji", *(torch.rand(n) for n in (2, 3, 4))).is_contiguous()
        one = torch.rand(2, 1, 3), torch.rand(2, 1, 4)
        torch.testing.assert_close(torch.einsum("nca,ncb->nab", *one), one[0].mT * one[1])

    def test_vmap_over_images(self):
        x = channels_last(torch.rand(6, 3, 4, 5)).reshape(2, 3, 3, 4, 5)
        for f in (lambda v: F.max_pool2d(v, 2), lambda v: F.dropout(v, 0.0), lambda v: v + 1,
                  lambda v: F.interpolate(v, scale_factor=2), lambda v: v.sort(1)[0],
                  lambda v: F.max_pool2d(v, 2, return_indices=True)[1]):  # fmt: skip
            assert torch.equal(torch.vmap(f)(x), torch.stack([f(v) for v in x]))
