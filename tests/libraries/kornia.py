"""kornia: filters, colours, geometry, features and augmentations, with gradients."""

import kornia as K
import torch

torch.manual_seed(0)
x = torch.rand(1, 3, 24, 24, requires_grad=True)


def show(name, value):
    (gradient,) = torch.autograd.grad(value.square().sum(), x, allow_unused=True)
    print(name, value.sum().item(), None if gradient is None else gradient.norm().item())


show("gaussian", K.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)))
show("sobel", K.filters.sobel(x))
show("median", K.filters.median_blur(x, (3, 3)))
show("canny", K.filters.canny(x)[0])
show("lab", K.color.rgb_to_lab(x))
show("hsv", K.color.rgb_to_hsv(x))
show("gray", K.color.rgb_to_grayscale(x))
show("rotate", K.geometry.rotate(x, torch.tensor([30.0])))
show("resize", K.geometry.resize(x, (12, 12)))
points = torch.tensor([[[0.0, 0.0], [23.0, 0.0], [23.0, 23.0], [0.0, 23.0]]])
moved = points + torch.tensor([[[2.0, 1.0], [-1.0, 2.0], [-3.0, -2.0], [1.0, -1.0]]])
matrix = K.geometry.get_perspective_transform(points, moved)
print("matrix", matrix.flatten().tolist())
show("warp", K.geometry.warp_perspective(x, matrix, (24, 24)))
show("ssim", K.metrics.ssim(x, x.detach().flip(-1), 5))
show("dilation", K.morphology.dilation(x, torch.ones(3, 3)))
show("harris", K.feature.harris_response(K.color.rgb_to_grayscale(x)))
print(
    "quaternion", K.geometry.axis_angle_to_rotation_matrix(torch.tensor([[0.1, 0.2, 0.3]])).tolist()
)
augment = K.augmentation.AugmentationSequential(
    K.augmentation.RandomHorizontalFlip(p=1.0),
    K.augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
    K.augmentation.RandomAffine(15.0, p=1.0),
)
torch.manual_seed(3)
show("augmented", augment(x))
print("loss", K.losses.total_variation(x).sum().item())
