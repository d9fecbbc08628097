"""The names of torch.special. Values and derivatives: test_opinfo.py and tests/test_special.py."""

import torch

import rushlight


def test_every_name_is_there():
    names = torch.special.__all__
    assert set(names) <= set(rushlight.special.__all__)
    assert all(callable(getattr(rushlight.special, n)) for n in names)
