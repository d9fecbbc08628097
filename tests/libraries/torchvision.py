"""torchvision: ten models, a training step, transforms, boxes and features; no compiled op."""

import torch

try:
    import torchvision  # noqa: F401 - to see whether it can be
except RuntimeError:  # PyTorch, where the compiled part is for another build: it asks for two names
    for name in ("nms", "qnms"):
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{name}", schema)

from torchvision import models, ops
from torchvision.models.feature_extraction import create_feature_extractor
from torchvision.transforms import v2

torch.manual_seed(0)
image = torch.randn(8, 3, 64, 64)
labels = torch.arange(8)
builders = {
    "resnet18": models.resnet18,
    "mobilenet_v3_small": models.mobilenet_v3_small,
    "efficientnet_b0": models.efficientnet_b0,
    "shufflenet_v2_x0_5": models.shufflenet_v2_x0_5,
    "squeezenet1_1": models.squeezenet1_1,
    "convnext_tiny": models.convnext_tiny,
    "swin_t": models.swin_t,
    "quantizable resnet18": models.quantization.resnet18,
}
for name, build in builders.items():
    torch.manual_seed(0)
    model = build(num_classes=10).eval()
    with torch.no_grad():
        print(name, model(image).flatten()[:4].tolist())
    model.train()
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss = torch.nn.functional.cross_entropy(model(image), labels)
    loss.backward()
    norm = sum(p.grad.square().sum() for p in model.parameters()).sqrt()
    optimizer.step()
    print(name, "loss", loss.item(), "gradient", norm.item())

torch.manual_seed(0)
vit = models.VisionTransformer(64, 16, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64).eval()
print("vit", vit(image).abs().mean().item())
segment = models.segmentation.lraspp_mobilenet_v3_large(
    weights=None, weights_backbone=None, num_classes=4
)
print("segmentation", segment.eval()(image)["out"].abs().mean().item())

torch.manual_seed(0)
features = create_feature_extractor(
    models.resnet18().eval(), {"layer2": "middle", "avgpool": "end"}
)
print("features", {k: (tuple(v.shape), v.mean().item()) for k, v in features(image).items()})

change = v2.Compose([
    v2.RandomResizedCrop(32, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(0.2, 0.2),
    v2.RandomRotation(10), v2.GaussianBlur(3), v2.Normalize([0.5] * 3, [0.25] * 3),
])  # fmt: skip
torch.manual_seed(3)
print("transforms", change(image / 2 + 0.5).abs().mean((0, 2, 3)).tolist())
first = torch.tensor([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 5.0, 6.0]])
second = torch.tensor([[2.0, 2.0, 6.0, 6.0]])
print("boxes", ops.box_iou(first, second).flatten().tolist(), ops.box_area(first).tolist())
print("giou", ops.generalized_box_iou_loss(first[:1], second).tolist())
print("focal", ops.sigmoid_focal_loss(image[0, 0, 0], image[1, 0, 0].gt(0).float()).mean().item())
