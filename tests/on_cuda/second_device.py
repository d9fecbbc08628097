"""``pytest -p on_cuda.second_device`` runs checks on the second device: "cuda" means it."""

import rushlight as torch

torch.cuda.set_device(1)
