"""The code of traced programs is PyTorch's, letter by letter."""

import warnings

import pytest
import torch
import torch.fx

import rushlight
import rushlight.fx
from oracle.harness import LIBRARIES

# Expressions of a module `s` with a buffer and a parameter, and of its inputs.
EXPRESSIONS = """
s.buf[i]
s.buf[i, 0]
s.buf + x
s.buf - x
s.buf / x
s.buf % x
s.buf ** x
s.buf @ x
s.buf == x
s.buf < x
x + s.buf
s.buf.add(x)
torch.add(s.buf, x)
torch.add(x, 1, alpha=2)
s.buf.add_(x)
s.buf.view(i, 3)
torch.zeros((i, 3))
torch.arange(i)
torch.ones(i, device=x.device)
s.buf.type_as(x)
s.buf.to(x)
s.buf.to(x.device)
s.buf.repeat(i, 1)
s.buf.sum(dim=i)
s.buf.masked_fill(x == 0, 1.0)
torch.where(x > 0, s.buf, 0.0)
s.p + x
s.p.t() @ x
s.lin(x).relu()
s.lin.weight @ x
s.seq(x)
F.linear(x, s.lin.weight, s.lin.bias)
x.shape[0]
x.size(0) // 2
torch.is_floating_point(x)
torch.numel(x)
isinstance(x, torch.Tensor)
x.dtype
x.T
x.mT
-x
+x
abs(x)
~x
x[0]
x[1:2]
x[..., None]
x[:, i]
x[1:i, None, [0, 1]]
1 - x
2 ** x
x // i
x % 2
x & i
x | 1
x ^ i
x << 1
2 >> x
x != i
x >= 1
torch.rand(i)
torch.einsum('ij,jk->ik', x, i)
torch.einsum('ij,jk->ik', [x, i])
torch.cat([x, s.buf], 1)
torch.cat((x, i), dim=-1)
torch.stack((x, i))
torch.split(x, 2, 1)
x.split(2, dim=1)
torch.chunk(x, 2, 1)
torch.max(x, 1)[0]
torch.max(x, dim=1).values
F.relu(x, True)
F.relu(x)
torch.relu(x)
torch.tensordot(x, i)
torch.norm(x, 2, 1)
torch.meshgrid(x, i)
torch.broadcast_tensors(x, i)
torch.unique(x)
torch.cdist(x, i)
torch.atleast_2d(x)
torch.block_diag(x, i)
torch.cartesian_prod(x, i)
torch.softmax(x, 1)
F.softmax(x, 1)
F.log_softmax(x, dim=-1)
F.threshold(x, 0.0, 1.0)
F.l1_loss(x, i)
F.sigmoid(x)
F.upsample(x, 2)
F.max_pool2d(x, 2)
F.max_pool1d(x, 2, 1)
F.adaptive_max_pool2d(x, 2)
F.adaptive_avg_pool2d(x, (1, 1))
F.adaptive_avg_pool1d(x, 1)
F.avg_pool2d(x, 2)
F.avg_pool1d(x, 2)
F.interpolate(x, scale_factor=2)
F.interpolate(x, size=(4, 4), mode='bilinear', align_corners=False)
torch.special.softmax(x, 1)
torch.linalg.vector_norm(x, dim=1)
torch._assert(x, 'a')
F.multi_head_attention_forward(*([x] * 13))
F.gumbel_softmax(x)
F.lp_pool2d(x, 2, 2)
F.unfold(x, 3)
F.fold(x, (4, 4), 2)
F.grid_sample(x, i)
F.affine_grid(x, [1, 1, 2, 2])
F.embedding_bag(x, i)
F.rrelu(x)
F.ctc_loss(x, i, x, i)
F.max_unpool2d(x, i, 2)
torch.isclose(x, i)
torch.allclose(x, i)
torch.equal(x, i)
torch.empty_like(x)
F.elu_(x)
F.relu_(x)
torch.relu_(x)
F.logsigmoid(x)
F.prelu(x, i)
x.to(torch.float16)
x.to(torch.device('cpu'))
x.to('cpu', torch.float32, non_blocking=True)
x.view(x.shape[0], -1)
x.permute(*[0, 1])
x.contiguous(memory_format=torch.channels_last)
x.sum().item()
float('inf') * x
x * float('nan')
x.clamp(min=-float('inf'))
(x, [i, {'a': x}])
{'k': x, 1: i}
None
slice(x, i)
F.cosine_similarity(x, i)
torch.conv2d(x, i)
F.conv2d(x, i)
F.conv_transpose2d(x, i, stride=2)
F.linear(x, i)
F.gelu(x, approximate='tanh')
F.scaled_dot_product_attention(x, x, x, is_causal=True)
F.one_hot(x, 3)
F.pad(x, [1, 2])
F.layer_norm(x, (3,))
F.batch_norm(x, i, i)
F.group_norm(x, 2)
F.instance_norm(x)
F.embedding(x, i)
F.dropout(x, 0.1, s.training)
F.dropout2d(x)
F.cross_entropy(x, i)
F.mse_loss(x, i)
F.nll_loss(x, i, reduction='sum')
F.kl_div(x, i, log_target=True)
F.binary_cross_entropy_with_logits(x, i)
F.smooth_l1_loss(x, i)
F.normalize(x, dim=1)
F.hardtanh(x, -2.0)
F.leaky_relu(x, 0.1)
F.silu(x)
F.glu(x)
F.tanhshrink(x)
F.pixel_shuffle(x, 2)
torch.functional.split(x, 1)
s.buf
s.p
x.grad
x.requires_grad_()
x.detach()
hasattr(x, 'foo')
getattr(x, 'foo')
x.foo.bar(1).baz
x(1)
x is None
x.keys()
f'{x}'
math.sqrt(x)
torch.matmul(x, i).mean(dim=[0, 1], keepdim=True)
torch.clamp(x, min=0)
torch.squeeze(x, 0).unsqueeze(-1).expand(2, -1)
x.type(torch.int64)
x.masked_fill(i, float('-inf'))
torch.full((2, 3), 1.5, dtype=torch.float32) + x
torch.sum(x, (0, 1))
torch.bmm(x, i).transpose(1, 2)
torch.nn.functional.relu(torch.nn.functional.relu(x))
x.add_(1).mul_(2)
list(map(torch.sin, [x, i]))
sum([x, i])
x.new_ones
"""
FAILING = """
max(x, i)
len(x)
int(i)
x if x else i
not x
[*x]
list(i)
x.reshape(-1, *i)
x in i
dict(**x)
range(i)
"""


def lines(text):
    return text.strip().splitlines()


def module(library, expression):
    import math

    names = {"torch": library, "F": library.nn.functional, "math": math}
    exec(f"def forward(self, x, i):\n    s = self\n    return {expression}", names)
    names["math"] = math

    def __init__(self):
        library.nn.Module.__init__(self)
        self.register_buffer("buf", library.arange(6.0).reshape(2, 3))
        self.p = library.nn.Parameter(library.ones(3))
        self.lin = library.nn.Linear(3, 3)
        self.seq = library.nn.Sequential(library.nn.ReLU(), library.nn.Linear(3, 3))

    made = type("M", (library.nn.Module,), {"__init__": __init__, "forward": names["forward"]})
    return made()


def traced(library, expression):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library.fx.symbolic_trace(module(library, expression))


@pytest.mark.parametrize("expression", lines(EXPRESSIONS))
def test_code_and_graph_of_an_expression(expression):
    ours, theirs = (traced(library, expression) for library in LIBRARIES)
    assert ours.code == theirs.code
    assert str(ours.graph) == str(theirs.graph)
    assert str(ours) == str(theirs)
    readable = [each.print_readable(print_output=False) for each in (ours, theirs)]
    assert readable[0] == readable[1]


@pytest.mark.parametrize("expression", lines(FAILING))
def test_errors_of_an_expression(expression):
    caught = []
    for library in LIBRARIES:
        with pytest.raises(Exception) as info:
            traced(library, expression)
        caught.append(info.value)
    ours, theirs = caught
    assert type(ours).__name__ == type(theirs).__name__
    assert str(theirs).split(". See")[0] in str(ours)


def test_what_is_compared_is_not_the_same_library():
    assert rushlight.fx is not torch.fx
