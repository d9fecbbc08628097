"""Function transforms: gradients of each sample, an ensemble in one call, Hessian and MAML."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, hessian, jacrev, stack_module_state, vmap

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 8)
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


model = Net()
data, targets = torch.randn(6, 5), torch.randint(0, 3, (6,))
params = {k: v.detach() for k, v in model.named_parameters()}


def compute_loss(params, sample, target):
    output = functional_call(model, params, (sample.unsqueeze(0),))
    return F.cross_entropy(output, target.unsqueeze(0))


per_sample = vmap(grad(compute_loss), in_dims=(None, 0, 0))(params, data, targets)
for name, value in per_sample.items():
    print(name, tuple(value.shape), value.flatten(1).norm(dim=1))
loss = F.cross_entropy(model(data), targets)
loss.backward()
same = torch.allclose(per_sample["fc1.weight"].mean(0), model.fc1.weight.grad)
print("mean equals the gradient of the batch:", same)

models = [Net() for _ in range(4)]
stacked, buffers = stack_module_state(models)


def call_one(p, b, x):
    return functional_call(models[0], (p, b), (x,))


ensemble = vmap(call_one, in_dims=(0, 0, None))(stacked, buffers, data)
print("ensemble", tuple(ensemble.shape), ensemble.softmax(-1).mean(0)[0])


def energy(x):
    return (x.sin() * x.exp()).sum() + x.prod()


point = torch.tensor([0.3, -0.5, 0.8])
print("hessian", hessian(energy)(point))
print("jacobian", jacrev(lambda x: torch.outer(x, x).sum(0))(point))


def network(p, x):
    return torch.relu(x @ p[0] + p[1]) @ p[2] + p[3]


def sine_task():
    amplitude, phase = torch.rand(1) * 4 + 0.1, torch.rand(1) * 3.14
    x = torch.rand(10, 1) * 10 - 5
    return x, amplitude * torch.sin(x + phase)


def task_loss(p, x, y):
    return F.mse_loss(network(p, x), y)


def maml_loss(p, x1, y1, x2, y2):
    gradients = grad(task_loss)(p, x1, y1)
    adapted = [w - 0.01 * g for w, g in zip(p, gradients)]
    return task_loss(adapted, x2, y2)


p = [0.5 * torch.randn(1, 20), torch.zeros(20), 0.3 * torch.randn(20, 1), torch.zeros(1)]
p = [w.requires_grad_() for w in p]
optimizer = torch.optim.Adam(p, lr=0.01)
for iteration in range(1, 13):
    tasks = [(*sine_task(), *sine_task()) for _ in range(4)]
    batch = [torch.stack(parts) for parts in zip(*tasks)]
    loss = vmap(maml_loss, in_dims=(None, 0, 0, 0, 0))(p, *batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if iteration % 3 == 0:
        print(f"iteration {iteration}: loss {loss.item():.5f}")
