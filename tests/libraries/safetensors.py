"""safetensors: files of tensors in every common type, whole and by slices, and of models."""

import os
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

torch.manual_seed(0)
kinds = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip
tensors = {str(k): (torch.randn(3, 5) * 4).to(k) for k in kinds}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x.safetensors")
    save_file(tensors, path, metadata={"made": "here"})
    print("bytes", os.path.getsize(path))
    again = load_file(path)
    print({k: (str(v.dtype), v.double().sum().item()) for k, v in sorted(again.items())})
    print("equal", all(torch.equal(again[k], v) for k, v in tensors.items()))
    with safe_open(path, framework="pt", device="cpu") as file:
        print(file.metadata(), sorted(file.keys())[:2])
        print(file.get_slice("torch.float32")[1:, 1:3].tolist())
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    save_model(model, path)
    other = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    other[1].weight = other[0].weight
    print("missing", load_model(other, path))
    print("model", torch.equal(other[1].weight, model[0].weight), other[0].bias.tolist())
print("memory", len(save(tensors)), load(save(tensors))["torch.float64"].sum().item())
