"""einops: rearrange, reduce, repeat, einsum, pack and the layers, with gradients."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

torch.manual_seed(0)
x = torch.randn(2, 3, 4, 6, requires_grad=True)
patches = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3)
pooled = reduce(x, "b c (h p) w -> b c h", "max", p=2)
loss = (
    patches.sin().sum() + pooled.square().mean() + repeat(pooled, "b c h -> b (c r) h", r=2).sum()
)
loss.backward()
print("loss", loss.item(), "grad", x.grad.square().sum().item())

joined, shapes = pack([patches, pooled.flatten(1)], "b *")
print(
    "packed", joined.shape, [list(s) for s in shapes], unpack(joined, shapes, "b *")[1].sum().item()
)
print("einsum", einsum(x, x, "b c h w, b c k w -> b h k").sum().item())

net = torch.nn.Sequential(
    Rearrange("b c h w -> b (h w) c"),
    EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=3, d=5),
    Reduce("b t d -> b d", "mean"),
)
out = net(x.detach())
out.square().sum().backward()
print("layers", out.tolist(), [p.grad.norm().item() for p in net.parameters()])
