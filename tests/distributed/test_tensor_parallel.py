"""Layers and tensors spread over processes compute what one process computes."""

import copy

import pytest

import rushlight as torch
from processes import needs_mpi, run
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
)
from rushlight.distributed.tensor import ones as spread_ones
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

pytestmark = needs_mpi
F64 = torch.float64


def close(actual, expected, atol=1e-12):
    for a, e in zip(actual, expected, strict=True):
        a = a.full_tensor() if isinstance(a, DTensor) else a
        torch.testing.assert_close(a.detach(), e.detach(), rtol=0, atol=atol)


def tensors(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(rank)  # the numbers of rank 0 count
    whole = torch.randn(5, 3, dtype=F64)
    box = [whole.tolist()]
    dist.broadcast_object_list(box, src=0)
    whole = torch.tensor(box[0], dtype=F64)
    for placement in (Shard(0), Shard(1), Shard(-1), Replicate()):
        t = distribute_tensor(whole, mesh, [placement])
        assert t.shape == (5, 3)
        assert (t.device_mesh, t.dtype, t.dim(), t.numel()) == (mesh, F64, 2, 15)
        close([t, t + t, 2 * t - 1, t.sin(), t.clone()],
              [whole, 2 * whole, 2 * whole - 1, whole.sin(), whole])  # fmt: skip
        norms = whole.norm(), whole.norm(1), whole.abs().max()
        close([t.norm(), t.norm(1), t.norm(float("inf"))], norms)
        close([t.sum(), t @ t.T, t[1]], [whole.sum(), whole @ whole.T, whole[1]])
        for other in (Shard(0), Shard(1), Replicate()):
            close([t.redistribute(mesh, [other])], [whole])
        t.mul_(2).add_(1)
        close([t, torch.zeros_like(t)], [2 * whole + 1, torch.zeros(5, 3, dtype=F64)])
    terms = DTensor.from_local(whole, mesh, [Partial()])
    close([terms, terms.redistribute(mesh, [Shard(1)]), terms + 1],
          [size * whole, size * whole, size * whole + 1])  # fmt: skip
    spread = distribute_tensor(whole, mesh, [Shard(0)])
    with pytest.raises(RuntimeError, match=r"mixed torch\.Tensor and DTensor"):
        spread + whole
    with pytest.raises(RuntimeError, match="cannot write to a part"):
        spread.cumsum_(0)
    with pytest.raises(ValueError, match="same length"):
        distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    close([spread_ones(3, 2, device_mesh=mesh, placements=[Shard(0)])], [torch.ones(3, 2)])

    # Gradients reach the parts.
    weight = distribute_tensor(nn.Parameter(whole), mesh, [Shard(0)])
    assert isinstance(weight, nn.Parameter)
    (weight.full_tensor() ** 2).sum().backward()
    (weight.to_local() * 3).sum().backward()
    (weight * weight).sum().backward()
    close([weight.grad], [4 * whole + 3])
    assert (weight * 0 + 2).sum().item() == 30
    layer = distribute_module(nn.Linear(3, 2).double(), mesh)
    assert all(isinstance(p, DTensor) for p in layer.parameters())


@pytest.mark.parametrize("size", [2, 3])
def test_tensors(size):
    run(tensors, size)


def leaves(rank, size):
    """A leaf has its gradient as a DTensor, and optimizers step it."""
    mesh = init_device_mesh("cpu", (size,))
    ones = torch.ones(6, dtype=F64)
    p = nn.Parameter(distribute_tensor(ones, mesh, [Shard(0)]))
    t = distribute_tensor(ones, mesh, [Shard(0)]).requires_grad_()
    given = distribute_tensor(ones.clone().requires_grad_(), mesh, [Shard(0)])
    made = spread_ones(6, dtype=F64, device_mesh=mesh, placements=[Shard(0)], requires_grad=True)
    for leaf in (p, t, given, made, copy.deepcopy(t)):
        assert leaf.is_leaf
        (leaf * leaf).sum().backward()
        assert isinstance(leaf.grad, DTensor)
        assert leaf.grad.placements == leaf.placements
        close([leaf.grad], [2 * ones])
        torch.optim.SGD([leaf], 0.1).step()
        close([leaf], [0.8 * ones])
        leaf.grad = None
    for kind in (torch.optim.Adam, torch.optim.Adagrad, torch.optim.RMSprop):
        mine, whole = (
            nn.Parameter(distribute_tensor(ones, mesh, [Shard(0)])),
            nn.Parameter(ones.clone()),
        )
        for leaf in (mine, whole):
            optimizer = kind([leaf], lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                (leaf * leaf).sum().backward()
                optimizer.step()
        close([mine], [whole])
    again = nn.Parameter(p)
    (again * 2).sum().backward()
    close([again, again.grad], [p.full_tensor(), 2 * ones])
    assert isinstance(p, nn.Parameter)
    assert not (p * p).is_leaf

    # A flag that is set counts, and a plain tensor keeps its own.
    p.requires_grad = False
    assert not (p * 2).requires_grad
    p.requires_grad = True
    (p * 3).sum().backward()
    close([p.grad], [3 * ones])
    plain = torch.ones(2)
    DTensor.from_local(plain, mesh, [Shard(0)]).requires_grad_()
    assert not plain.requires_grad
    plain.requires_grad_()
    (DTensor.from_local(plain, mesh, [Shard(0)]) * 2).sum().backward()
    assert plain.grad.tolist() == [2.0, 2.0]

    # Hooks, gradients of what is no leaf, gradients of gradients.
    t = distribute_tensor(ones, mesh, [Shard(0)]).requires_grad_()
    seen = []
    t.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.full_tensor().sum()))
    y = t * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    (y * y).sum().backward()
    close([t.grad, seen[0]], [36 * ones, torch.tensor(216.0, dtype=F64)])
    plain = torch.ones(2, dtype=F64, requires_grad=True)
    loss = (t * t).sum() * plain.sum()
    of_t, of_plain = torch.autograd.grad(loss, [t, plain])
    assert of_t.placements == t.placements
    close([of_t, of_plain], [4 * ones, torch.full((2,), 6.0, dtype=F64)])
    for more in ({}, {"inputs": [t]}):
        t.grad = None
        torch.autograd.backward([(t * t).sum()], **more)
        close([t.grad], [2 * ones])
    t.grad = None
    (t * t).sum().backward(inputs=[t])
    close([t.grad], [2 * ones])
    t.grad = None
    torch.autograd.backward([t * t], [distribute_tensor(3 * ones, mesh, [Shard(0)])])
    close([t.grad], [6 * ones])
    t.grad = None
    (t**3).sum().backward(create_graph=True)
    first, t.grad = t.grad, None
    first.sum().backward()
    close([t.grad], [6 * ones])


@pytest.mark.parametrize("size", [2, 3])
def test_leaves(size):
    run(leaves, size)


def checked(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    with pytest.raises(ValueError, match="Inconsistent tensor metadata"):
        DTensor.from_local(torch.ones(2 + rank), mesh, [Shard(0)], run_check=True)
    mine = torch.full((2,), float(rank))
    same = DTensor.from_local(mine, mesh, [Replicate()], run_check=True)
    assert same.to_local().tolist() == [0.0, 0.0]
    parts = DTensor.from_local(torch.ones(2), mesh, [Shard(0)], run_check=True)
    assert parts.shape == (2 * size,)


def test_parts_are_compared_where_asked():
    run(checked, 2)


def plans(rank, size):
    mesh = init_device_mesh("cpu", (size,))

    def net():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 4))

    x = torch.ones(2, 4)
    for plan in ({"*": ColwiseParallel(output_layouts=Replicate())},
                 {"": PrepareModuleOutput(output_layouts=Replicate(),
                                          desired_output_layouts=Replicate()),
                  "0": ColwiseParallel(), "1": RowwiseParallel()}):  # fmt: skip
        close([parallelize_module(net(), mesh, plan)(x)], [net()(x)], atol=1e-6)
    with pytest.warns(UserWarning, match=r"'nothing.\*' could not be resolved"):
        parallelize_module(net(), mesh, {"nothing.*": ColwiseParallel()})
    with pytest.raises(TypeError, match="for parallelize_plan"):
        parallelize_module(net(), mesh, "colwise")
    with pytest.raises(TypeError, match="for parallelize_plan"):
        parallelize_module(net(), mesh, {"0": "colwise"})

    # Each process gives its part of the indices, unless the style says that it has them whole.
    table = parallelize_module(nn.Embedding(7, 3), mesh, RowwiseParallel())
    assert table(torch.tensor([1, 5])).shape == (2 * size, 3)

    # What has no elements yet.
    def rows(name, module, mesh):
        for key, p in list(module._parameters.items()):
            module.register_parameter(key, nn.Parameter(distribute_tensor(p, mesh, [Shard(0)])))

    layer = distribute_module(nn.Linear(3, 4, device="meta"), mesh, rows)
    assert layer.weight.is_meta
    layer.to_empty(device="cpu")
    torch.manual_seed(rank)  # the numbers of rank 0 count
    layer.reset_parameters()
    torch.manual_seed(0)
    expected = nn.Linear(3, 4)
    close([layer.weight, layer.bias], [expected.weight, expected.bias], 0)
    part = layer.weight.to_local().shape
    assert layer.weight.double().placements == (Shard(0),)
    layer.double()
    assert layer.weight.to_local().shape == part
    assert (layer.weight.dtype, layer.weight.to_local().dtype) == (F64, F64)
    norm = distribute_module(nn.BatchNorm1d(3), mesh)
    assert isinstance(norm.running_mean, DTensor)

    # Terms that are not summed.
    mine = torch.tensor([rank + 1.0, -rank])
    for op, found in (("max", [size, 0.0]), ("min", [1.0, 1.0 - size])):
        terms = DTensor.from_local(mine, mesh, [Partial(op)])
        assert terms.full_tensor().tolist() == found
        close([terms.redistribute(mesh, [Shard(0)])], [torch.tensor(found)])
    mine.requires_grad_()
    with pytest.raises(RuntimeError, match=r"Partial\(max\) of a tensor that requires grad"):
        DTensor.from_local(mine, mesh, [Partial("max")]).full_tensor()


@pytest.mark.parametrize("size", [2, 3])
def test_plans_and_modules_without_elements(size):
    run(plans, size)


def blocks(rank, size):
    """Gate and up matrices of one tensor are cut each for itself."""
    from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset
    from rushlight.distributed.tensor.placement_types import _StridedShard

    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(30, dtype=F64).reshape(10, 3)
    halves = whole.chunk(2)
    cut = _StridedShard(0, split_factor=2)
    t = distribute_tensor(nn.Parameter(whole), mesh, [cut])
    own = torch.cat([distribute_tensor(h, mesh, [Shard(0)]).to_local() for h in halves])
    close([t.to_local(), t, t * 2], [own, whole, whole * 2])
    norm = t.detach().norm()
    close([norm], [whole.norm()])
    for other in (Shard(0), Shard(1), Replicate(), _StridedShard(-1, split_factor=3)):
        close([t.redistribute(mesh, [other])], [whole])
        close([distribute_tensor(whole, mesh, [other]).redistribute(mesh, [cut])], [whole])
    close([DTensor.from_local(whole, mesh, [Partial()]).redistribute(mesh, [cut])], [size * whole])
    (t.full_tensor() ** 2).sum().backward()
    close([t.grad], [2 * whole])
    shape, offset = compute_local_shape_and_global_offset((10, 3), mesh, [cut])
    assert shape == tuple(own.shape)
    assert offset == (int(own[0, 0]) // 3, 0)
    with pytest.raises(RuntimeError, match="redistribute it to Shard"):
        dist.checkpoint.save({"t": t}, checkpoint_id="never")


@pytest.mark.parametrize("size", [2, 3])
def test_parts_of_blocks(size):
    run(blocks, size)


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.LayerNorm(6)
        self.up = nn.Linear(6, 10)
        self.down = nn.Linear(10, 6)
        self.double()

    def forward(self, x):
        return self.down(torch.tanh(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embed = nn.Embedding(11, 6, padding_idx=4).double()
        self.layers = nn.ModuleList([Feed(), Feed()])
        self.head = nn.Linear(6, 11).double()

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def step(model, tokens, optimizer):
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        with loss_parallel():
            logits = model(tokens)
        logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.roll(1, 1).flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def layers(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(3)
    tokens = torch.randint(0, 11, (3, 12))
    plain = Model()
    expected = step(plain, tokens, torch.optim.AdamW(plain.parameters(), lr=0.01))
    megatron = {"layers.*.up": ColwiseParallel(), "layers.*.down": RowwiseParallel()}
    sequence = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "layers.*.norm": SequenceParallel(),
        "layers.*.up": ColwiseParallel(input_layouts=Shard(1)),
        "layers.*.down": RowwiseParallel(output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    spread_loss = {
        **megatron,
        "embed": ColwiseParallel(output_layouts=Replicate()),
        "head": ColwiseParallel(use_local_output=False),
    }
    rows = {
        "embed": RowwiseParallel(input_layouts=Replicate()),
        "head": RowwiseParallel(input_layouts=Replicate()),
    }
    for plan in (megatron, sequence, spread_loss, rows):
        model = parallelize_module(Model(), mesh, plan)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        close(step(model, tokens, optimizer), expected)
        close(model.parameters(), plain.parameters())
        assert list(model.state_dict()) == list(plain.state_dict())
    # The second layer's input comes spread over the sequence, and leaves whole.
    feed = parallelize_module(
        Feed(),
        mesh,
        {
            "up": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            "down": PrepareModuleOutput(
                output_layouts=Replicate(), desired_output_layouts=Shard(1)
            ),
        },
    )
    x = torch.randn(2, 3 * size, 6, dtype=F64)
    alone = Feed()
    part = DTensor.from_local(x, mesh, [Replicate()]).redistribute(mesh, [Shard(1)]).to_local()
    out = feed.down(torch.tanh(feed.up(part).to_local()))
    whole = DTensor.from_local(out, mesh, [Shard(1)]).full_tensor()
    close([whole], [alone.down(torch.tanh(alone.up(x)))])

    with pytest.raises(NotImplementedError, match="only support"):
        parallelize_module(nn.ReLU(), mesh, ColwiseParallel())


def uneven(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(3)
    tokens = torch.randint(0, 11, (3, 13))  # no number of processes here divides it
    plain = Model()
    expected = step(plain, tokens, torch.optim.AdamW(plain.parameters(), lr=0.01))
    inner = {"output_layouts": Shard(1), "use_local_output": False}
    plan = {
        "embed": RowwiseParallel(input_layouts=Replicate(), **inner),
        "layers.*.norm": SequenceParallel(),
        "layers.*.up": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
        "layers.*.down": RowwiseParallel(**inner),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    model = parallelize_module(Model(), mesh, plan)
    close(step(model, tokens, torch.optim.AdamW(model.parameters(), lr=0.01)), expected)
    close(model.parameters(), plain.parameters())


@pytest.mark.parametrize("size", [2, 3, 4])
def test_sequences_that_do_not_divide(size):
    run(uneven, size)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_tensor_and_sequence_parallel_layers(size):
    run(layers, size)
