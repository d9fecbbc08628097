"""timm: seven models: forward, a training step with its optimizers, features, save and load."""

import tempfile

import numpy as np
import torch

try:
    import torchvision  # noqa: F401 - to see whether it can be
except RuntimeError:  # PyTorch, where the compiled part is for another build: it asks for two names
    for name in ("nms", "qnms"):
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{name}", schema)

import timm
from timm.data import Mixup, create_transform
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, dispatch_clip_grad

image = (torch.arange(2 * 3 * 64 * 64.0) * 37 % 1013 / 512 - 1).reshape(2, 3, 64, 64)
labels = torch.tensor([1, 7])
sizes = {"img_size": 64}
models = {
    "resnet18": ({}, "sgd"),
    "efficientnet_b0": ({}, "rmsproptf"),
    "mobilenetv3_small_050": ({}, "adamw"),
    "convnext_atto": ({}, "lamb"),
    "vit_tiny_patch16_224": (sizes, "adamw"),
    "swin_tiny_patch4_window7_224": (sizes, "lion"),
    "mixer_s32_224": (sizes, "nadamw"),
}
for name, (options, chosen) in models.items():
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10, **options).eval()
    with torch.no_grad():
        print(name, model(image).flatten()[:4].tolist())
    model.train()
    average = ModelEmaV3(model, decay=0.9)
    optimizer = create_optimizer_v2(model, opt=chosen, lr=1e-4, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=4, warmup_t=1, warmup_lr_init=1e-5)
    torch.manual_seed(1)
    for step in range(2):
        optimizer.zero_grad()
        loss = LabelSmoothingCrossEntropy(0.1)(model(image), labels)
        loss.backward()
        dispatch_clip_grad(model.parameters(), 1.0)
        optimizer.step()
        schedule.step(step + 1)
        average.update(model)
    print(name, chosen, "loss", loss.item(), "rate", optimizer.param_groups[0]["lr"])
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        torch.save(average.module.state_dict(), file.name)
        again = timm.create_model(name, num_classes=10, checkpoint_path=file.name, **options)
    with torch.no_grad():
        print(name, "averaged", again.eval()(image).abs().mean().item())

torch.manual_seed(0)
stages = timm.create_model("resnet18", features_only=True, out_indices=(1, 3)).eval()
print("features", [(tuple(f.shape), f.mean().item()) for f in stages(image)])
tokens = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=0).eval()
with torch.no_grad():
    print("tokens", tokens.forward_features(image).abs().mean().item(), tokens(image).shape)
np.random.seed(0)  # noqa: NPY002 - which timm draws from
mixed, targets = Mixup(mixup_alpha=0.4, num_classes=10)(image.clone(), labels)
print("mixup", mixed.sum().item(), targets.sum(1).tolist())
print("transform", len(create_transform(64).transforms))
