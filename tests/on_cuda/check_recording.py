"""The law of recording: what has run once is recorded in a CUDA graph, unless it is listed."""

import os

import pytest

import rushlight as torch
from on_cuda.check_ops import moved
from registry import sample_makers
from samples import function

CASES = list(sample_makers())
if part := os.environ.get("RUSHLIGHT_CUDA_PART"):
    CASES = CASES[int(part.split("/")[0]) :: int(part.split("/")[1])]

# The host computes them, or looks whether a matrix was singular.
BY_THE_HOST = [
    "bincount", "cholesky", "cholesky_inverse", "cholesky_solve", "det", "fft.fft",
    "fft.fft2", "fft.fftn", "fft.hfft", "fft.hfft2", "fft.hfftn", "fft.ifft", "fft.ifft2",
    "fft.ifftn", "fft.ihfft", "fft.ihfft2", "fft.ihfftn", "fft.irfft", "fft.irfft2",
    "fft.irfftn", "fft.rfft", "fft.rfft2", "fft.rfftn", "geqrf", "histc", "inverse",
    "kthvalue", "linalg.cholesky", "linalg.cholesky_ex", "linalg.cond", "linalg.det",
    "linalg.eig", "linalg.eigh", "linalg.eigvals", "linalg.eigvalsh",
    "linalg.householder_product", "linalg.inv", "linalg.inv_ex", "linalg.ldl_factor",
    "linalg.ldl_factor_ex", "linalg.ldl_solve", "linalg.lstsq", "linalg.lu",
    "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.lu_solve", "linalg.matrix_exp",
    "linalg.matrix_norm", "linalg.matrix_rank", "linalg.pinv", "linalg.qr",
    "linalg.slogdet", "linalg.solve", "linalg.solve_ex", "linalg.solve_triangular",
    "linalg.svd", "linalg.svdvals", "linalg.tensorinv", "linalg.tensorsolve", "logdet",
    "lu", "lu_solve", "lu_unpack", "matrix_exp", "median", "mode", "nuclear_norm", "orgqr",
    "ormqr", "pinverse", "qr", "slogdet", "svd", "triangular_solve",
]  # fmt: skip
# The shape of the result, or an error, depends on the elements.
BY_THE_ELEMENTS = [
    "argwhere", "index_fill", "masked_scatter", "masked_select",
    "nn.functional.gaussian_nll_loss", "nn.functional.multilabel_margin_loss",
    "nn.functional.one_hot", "nonzero", "take_along_dim", "unique", "unique_consecutive",
]  # fmt: skip
# The host lists the pairs.
BY_THE_PAIRS = ["combinations", "nn.functional.pdist", "pdist"]
REFUSED = {*BY_THE_HOST, *BY_THE_ELEMENTS, *BY_THE_PAIRS}


def recorded(f, args, kwargs):
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        f(*args, **kwargs)


@pytest.mark.parametrize(
    ("name", "make"), CASES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)]
)
def test_it_is_recorded(name, make):
    f = function(name)
    for args, kwargs in list(make(torch.float32, 0))[:2]:
        first, second = moved((args, kwargs)), moved((args, kwargs))
        try:
            f(*first[0], **first[1])
        except Exception:
            continue  # the sample is of an error
        if name not in REFUSED:
            recorded(f, *second)
            continue
        try:
            recorded(f, *second)
        except RuntimeError as error:
            if "capturing" not in str(error):
                raise
