"""captum: attributions of a small network by gradients, by occlusion and by layers."""

import numpy as np
import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GradientShap,
    InputXGradient,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    LayerIntegratedGradients,
    NoiseTunnel,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
)

torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Flatten(), torch.nn.Linear(64, 10), torch.nn.ReLU(), torch.nn.Linear(10, 3),
).eval()  # fmt: skip
x = torch.randn(2, 1, 8, 8)
target = torch.tensor([0, 2])


def show(name, value):
    print(name, value.abs().sum().item(), value.flatten()[:3].tolist())


show("IntegratedGradients", IntegratedGradients(net).attribute(x, target=target, n_steps=20))
show("Saliency", Saliency(net).attribute(x, target=target))
show("InputXGradient", InputXGradient(net).attribute(x, target=target))
show("DeepLift", DeepLift(net).attribute(x, baselines=x * 0, target=target))
show("FeatureAblation", FeatureAblation(net).attribute(x, target=target))
show("Occlusion", Occlusion(net).attribute(x, (1, 3, 3), target=target))
show("LayerConductance", LayerConductance(net, net[4]).attribute(x, target=target, n_steps=10))
show("LayerGradCam", LayerGradCam(net, net[0]).attribute(x, target=target))
layer = LayerIntegratedGradients(net, net[0])
show("LayerIntegratedGradients", layer.attribute(x, target=target, n_steps=10))
torch.manual_seed(1)
show("ShapleyValueSampling", ShapleyValueSampling(net).attribute(x, target=target, n_samples=2))
torch.manual_seed(1)
np.random.seed(1)  # noqa: NPY002  GradientShap draws from it
show("GradientShap", GradientShap(net).attribute(x, baselines=x * 0, target=target))
torch.manual_seed(1)
show("NoiseTunnel", NoiseTunnel(Saliency(net)).attribute(x, target=target, nt_samples=3))
