"""diffusers: a tiny UNet and its schedulers: a training step and sampling."""

import tempfile

import torch
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DConditionModel, UNet2DModel

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
    block_out_channels=(16, 32), norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)  # fmt: skip
schedule = DDPMScheduler(num_train_timesteps=20)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3)
images = torch.randn(2, 3, 16, 16)
for step in range(3):
    noise, times = torch.randn_like(images), torch.randint(0, 20, (2,))
    noisy = schedule.add_noise(images, noise, times)
    loss = torch.nn.functional.mse_loss(unet(noisy, times).sample, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", step, loss.item())

unet.eval()
for kind in (DDPMScheduler, DDIMScheduler):
    sampler = kind(num_train_timesteps=20)
    sampler.set_timesteps(4)
    generator = torch.Generator().manual_seed(3)
    sample = torch.randn(1, 3, 16, 16, generator=generator)
    with torch.no_grad():
        for t in sampler.timesteps:
            noise = unet(sample, t).sample
            sample = sampler.step(noise, t, sample, generator=generator).prev_sample
    print(kind.__name__, sample.mean().item(), sample.std().item())

conditioned = UNet2DConditionModel(
    sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, cross_attention_dim=16,
    block_out_channels=(16, 32), norm_num_groups=8, attention_head_dim=8,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
).eval()  # fmt: skip
latents, text = torch.randn(1, 4, 8, 8), torch.randn(1, 5, 16, requires_grad=True)
out = conditioned(latents, 3, encoder_hidden_states=text).sample
out.square().mean().backward()
print("conditioned", out.sum().item(), text.grad.norm().item())
with tempfile.TemporaryDirectory() as folder:
    conditioned.save_pretrained(folder)
    again = UNet2DConditionModel.from_pretrained(folder).eval()
with torch.no_grad():
    print("again", torch.equal(again(latents, 3, encoder_hidden_states=text).sample, out))
