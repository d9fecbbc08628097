"""The names of linear algebra. Values and derivatives are in test_opinfo.py."""

import torch

import rushlight

OTHERS = (
    "cholesky", "cholesky_solve", "corrcoef", "cov", "geqrf", "inverse", "lobpcg", "logdet", "lu",
    "lu_solve", "lu_unpack", "matrix_exp", "ormqr", "pca_lowrank", "pinverse", "qr", "renorm",
    "svd", "svd_lowrank", "triangular_solve", "vdot",
)  # fmt: skip


def test_every_name_is_there():
    hidden = {"Tensor", "common_notes"}
    names = {n for n in dir(torch.linalg) if not n.startswith("_")} - hidden
    assert names <= set(dir(rushlight.linalg))
    assert all(hasattr(rushlight, name) for name in OTHERS)
