"""A DDP program as one writes it for PyTorch: `ddp_program.py LIBRARY` prints losses as JSON."""

import importlib
import json
import sys

import numpy as np


def main(name):
    torch = importlib.import_module(name)
    dist = importlib.import_module(f"{name}.distributed")
    hooks = importlib.import_module(f"{name}.distributed.algorithms.ddp_comm_hooks.default_hooks")
    optim = importlib.import_module(f"{name}.distributed.optim")
    nn, DDP = torch.nn, torch.nn.parallel.DistributedDataParallel
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 16)
            self.norm = nn.BatchNorm1d(16)
            self.heads = nn.ModuleList([nn.Linear(16, 3), nn.Linear(16, 3)])
            self.double()

        def forward(self, x, head):
            return self.heads[head](torch.tanh(self.norm(self.first(x))))

    def made(**options):
        model = Net()
        random = np.random.default_rng(rank)  # of rank 0 in the end
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.from_numpy(random.standard_normal(tuple(p.shape)) / 4))
        return DDP(model, **options)

    def batch(step):
        random = np.random.default_rng(100 + step * size + rank)
        rows = 4 + rank
        x = torch.from_numpy(random.standard_normal((rows, 6)))
        y = torch.from_numpy(random.integers(0, 3, rows))
        return x, y

    def train(model, optimizer, steps, head=lambda step: 0, accumulate=1, first=0):
        losses = []
        for step in range(first, first + steps):
            x, y = batch(step)
            if step % accumulate:
                with model.no_sync():
                    nn.functional.cross_entropy(model(x, head(step)), y).backward()
                continue
            loss = nn.functional.cross_entropy(model(x, head(step)), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    found = {}
    for views in (False, True):
        model = made(gradient_as_bucket_view=views, find_unused_parameters=True)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        found[f"branches {views}"] = train(model, optimizer, 6, head=lambda s: (s + rank) % 2)
        model = made(gradient_as_bucket_view=views, find_unused_parameters=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        found[f"accumulated {views}"] = train(model, optimizer, 9, accumulate=3)
    model = made(find_unused_parameters=True, broadcast_buffers=False)
    model.register_comm_hook(None, hooks.fp16_compress_hook)
    found["half"] = train(model, torch.optim.SGD(model.parameters(), lr=0.1), 4)
    model = made(find_unused_parameters=True)
    zero = optim.ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.05)
    found["zero"] = train(model, zero, 4)
    model = made(static_graph=True)
    found["static"] = train(model, torch.optim.SGD(model.parameters(), lr=0.1), 4)
    model = made(find_unused_parameters=True, broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        found["joined"] = train(model, optimizer, 3 + rank)
    found["after"] = [p.sum().item() for p in model.parameters()]
    print("RESULT", json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
