"""torchviz: the graph of a small computation as dot text, with what it saved."""

import re

import torch
from torchviz import make_dot

torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(3, 4))
bias = torch.nn.Parameter(torch.randn(4))
out = torch.addmm(bias, torch.randn(2, 3), weight).tanh().sigmoid().mean()
text = make_dot(out, params={"weight": weight, "bias": bias}).source
print(text.count("->"), *sorted(set(re.findall(r"\w+Backward\d?|weight|bias", text))))
x = torch.randn(3, requires_grad=True)
text = make_dot((x * x.exp()).sum(), params={"x": x}, show_saved=True).source
print(text.count("->"), *sorted(set(re.findall(r"\w+Backward\d?|_saved_\w+", text))))
