"""What tests run in fresh processes, which import it from here."""

import rushlight as torch
from rushlight.utils.data import Dataset


def add_one(tensor, parameter):
    tensor += 1
    with torch.no_grad():
        parameter.mul_(2)


def write_index(index, tensor):
    tensor[index] = index


class Numbers(Dataset):
    """Sample ``i``: a row full of ``i``, and ``i``."""

    def __init__(self, length=10, width=3):
        self.length = length
        self.width = width

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index >= self.length:
            raise IndexError(index)
        return torch.full((self.width,), float(index)), index
