"""higher: gradients through the steps of an optimiser."""

import higher
import torch

torch.manual_seed(0)
x, y = torch.randn(16, 3), torch.randn(16, 1)
for kind, options in ((torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {})):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    meta = torch.nn.Parameter(torch.tensor(0.5))
    optimizer = kind(net.parameters(), lr=0.1, **options)
    with higher.innerloop_ctx(net, optimizer, copy_initial_weights=False) as (inner, steps):
        for _ in range(4):
            steps.step(meta * (inner(x) - y).square().mean())
        outer = (inner(x) - y).abs().mean()
        outer.backward()
    print(kind.__name__, outer.item(), meta.grad.item())
    print([p.grad.norm().item() for p in net.parameters()])
