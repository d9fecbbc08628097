"""opacus: training with differential privacy; gradients of each sample."""

import warnings

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.validators import ModuleValidator

warnings.simplefilter("ignore")
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.ReLU(), torch.nn.Flatten(),
    torch.nn.Linear(144, 3),
)  # fmt: skip
x, y = torch.randn(24, 1, 8, 8), torch.randint(3, (24,))
wrapped = GradSampleModule(net)
torch.nn.functional.cross_entropy(wrapped(x), y, reduction="sum").backward()
for name, p in wrapped.named_parameters():
    print(name, list(p.grad_sample.shape), p.grad_sample.norm().item())
wrapped.to_standard_module().zero_grad()

torch.manual_seed(0)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
engine = PrivacyEngine()
net, optimizer, loader = engine.make_private(
    module=net, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0
)
for epoch in range(2):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        print("loss", epoch, loss.item())
print("epsilon", engine.get_epsilon(1e-5))
print("invalid", len(ModuleValidator.validate(torch.nn.BatchNorm2d(3))))
