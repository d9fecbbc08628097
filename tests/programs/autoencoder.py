"""A convolutional autoencoder that removes noise: transposed convolutions, upsampling."""

import torch
import torch.nn as nn


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(8, 4, 3, stride=2, padding=1),
            nn.GELU(),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1, output_padding=1),
            nn.GELU(),
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Conv2d(8, 1, 3, padding=1),
        )

    def forward(self, x):
        code = self.encoder(x)
        return self.decoder(code), code


torch.manual_seed(0)
grid = torch.linspace(-1, 1, 12)
yy, xx = torch.meshgrid(grid, grid, indexing="ij")
centres = torch.rand(64, 2, 1, 1) - 0.5
clean = torch.exp(-8 * ((yy - centres[:, :1]) ** 2 + (xx - centres[:, 1:]) ** 2))

model = AutoEncoder()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)
loss_fn = nn.SmoothL1Loss(beta=0.1)
for epoch in range(8):
    total = 0.0
    for batch in clean.split(16):
        noisy = batch + 0.1 * torch.randn_like(batch)
        output, code = model(noisy)
        loss = loss_fn(output, batch) + 1e-3 * code.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    scheduler.step()
    print(f"epoch {epoch}: loss {total / len(clean):.6f}, lr {scheduler.get_last_lr()[0]:.6f}")
output, code = model(clean[:2])
print(code.shape, output.shape, f"{(output - clean[:2]).pow(2).mean().item():.6f}")
