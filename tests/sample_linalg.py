"""Sample inputs of linear algebra; `samples` imports this module.

Matrices are far from singular, and their eigenvalues and singular values far from each other.
"""

import functools

import rushlight as torch
from samples import DIFFERENTIATED, Maker, sample, samples


def numbers(generator):
    """A generator that has samples of the types that LAPACK knows."""

    @functools.wraps(generator)
    def generate(dtype, seed):
        if dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
            yield from generator(Matrices(dtype, seed))

    return generate


class Matrices(Maker):
    def any(self, *shape):
        """Of any shape, with singular values that differ."""
        k = min(shape[-2:])
        ramp = torch.zeros(shape[-2:], dtype=self.dtype)
        ramp.diagonal().copy_(torch.arange(k).to(self.dtype) * 0.8 + 1.6)
        return self(*shape, low=-0.5, high=0.6) + ramp

    def square(self, *batch_and_size):
        return self.any(*batch_and_size, batch_and_size[-1])

    def hermitian(self, *batch_and_size):
        a = self.square(*batch_and_size)
        return (a + a.mH) / 2

    def positive_definite(self, *batch_and_size):
        a = self.square(*batch_and_size)
        return (a @ a.mH + (a @ a.mH).mH) / 2

    def lower(self, *batch_and_size):
        """A triangle with a real diagonal, as Cholesky's factors have."""
        a = self.square(*batch_and_size)
        return a.tril(-1) + torch.diag_embed(a.diagonal(0, -2, -1).real)

    def layouts(self, make, *shape):
        """The same kind of matrix in rows, in columns, spread out, and a batch of two."""
        yield make(*shape)
        yield make(*shape).mT.contiguous().mT
        wide = torch.zeros(*shape[:-1], make(*shape).shape[-2], 9, dtype=self.dtype)
        part = wide[..., 1 : 2 * make(*shape).shape[-1] : 2]
        part.copy_(make(*shape))
        yield part
        yield make(2, *shape)


def hermitian_first(f):
    """Of ops that read one triangle: the argument is made Hermitian, as their gradients are."""

    def call(a, *args, **kwargs):
        return f((a + a.mH) / 2, *args, **kwargs)

    return call


def without_phases(f):
    """Eigenvectors up to the factors that are free."""

    def call(*args, **kwargs):
        values, vectors = f(*args, **kwargs)
        return values, vectors.abs()

    return call


def without_signs(f):
    """Singular vectors up to the signs that are free."""

    def call(*args, **kwargs):
        u, s, v = f(*args, **kwargs)
        return u.abs(), s, v.abs()

    return call


# Of which LAPACK's libraries differ in the factors that are free.
FREE = {
    "linalg.eig": without_phases, "linalg.eigh": without_phases,
    "linalg.svd": without_signs, "svd": without_signs,
}  # fmt: skip
HERMITIAN = ["cholesky", "linalg.cholesky", "linalg.cholesky_ex", "linalg.eigh", "linalg.eigvalsh"]
DIFFERENTIATED.update(dict.fromkeys(HERMITIAN, hermitian_first))
DIFFERENTIATED["linalg.eig"] = without_phases


@samples("linalg.cholesky", "linalg.cholesky_ex", "cholesky")
@numbers
def cholesky_factors(make):
    for a in make.layouts(make.positive_definite, 2):
        yield sample(a)
    yield sample(make.positive_definite(3), upper=True)
    yield sample(make.positive_definite(1))
    yield sample(make(0, 0))
    yield sample(make(0, 2, 2))


@samples("cholesky_solve")
@numbers
def cholesky_solutions(make):
    yield sample(make(2, 1), make.lower(2))
    yield sample(make.transposed(3, 2), make.lower(3).mT.contiguous(), True)
    yield sample(make(2, 2, 3), make.lower(2))
    yield sample(make(2, 1), make.lower(2, 2), upper=False)
    yield sample(make(0, 2), make(0, 0))


@samples("cholesky_inverse")
@numbers
def cholesky_inverses(make):
    for a in make.layouts(make.lower, 2):
        yield sample(a)
    yield sample(make.lower(3).mT.contiguous(), True)
    yield sample(make(0, 0))


@samples("linalg.solve_triangular")
@numbers
def triangular_solutions(make):
    yield sample(make.square(2), make(2, 1), upper=True)
    yield sample(make.square(2).mT, make.transposed(2, 3), upper=False)
    yield sample(make.square(3), make(2, 3), upper=True, left=False)
    yield sample(make.square(2), make(2, 2), upper=False, unitriangular=True)
    yield sample(make.square(2, 2), make(3, 1, 2, 1), upper=True)
    yield sample(make.square(2), make.strided(2, 2, 2), upper=False, left=False)
    yield sample(make(0, 0), make(0, 2), upper=True)


@samples("triangular_solve")
@numbers
def former_triangular_solutions(make):
    yield sample(make(2, 1), make.square(2))
    yield sample(make.transposed(2, 2), make.square(2), False)
    yield sample(make(3, 2), make.square(3), True, True)
    yield sample(make(2, 2, 1), make.square(2), upper=False, unitriangular=True)


@samples("linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex", "lu")
@numbers
def lu_factors(make):
    for a in make.layouts(make.square, 2):
        yield sample(a)
    yield sample(make.any(3, 2))
    yield sample(make.any(2, 3))
    yield sample(make.square(3).flip(-2))
    yield sample(make(0, 2))


@samples("lu_unpack")
@numbers
def unpacked(make):
    def factors(a):
        return torch.linalg.lu_factor(a)

    yield sample(*factors(make.square(2)))
    yield sample(*factors(make.any(3, 2)), unpack_pivots=False)
    yield sample(*factors(make.any(2, 2, 3)))
    yield sample(*factors(make.square(2)), False, True)


@samples("linalg.lu_solve")
@numbers
def lu_solutions(make):
    def factors(a):
        return torch.linalg.lu_factor(a)

    yield sample(*factors(make.square(2)), make(2, 1))
    yield sample(*factors(make.square(2).flip(0)), make(2, 2), adjoint=True)
    yield sample(*factors(make.square(3)), make.transposed(2, 3), left=False)
    yield sample(*factors(make.square(2, 2)), make(2, 2, 1))
    yield sample(*factors(make.square(2)), make(2, 2), left=False, adjoint=True)


@samples("lu_solve")
@numbers
def former_lu_solutions(make):
    for lu, pivots, b in (s.args for s in lu_solutions.__wrapped__(make) if not s.kwargs):
        yield sample(b, lu, pivots)
    yield sample(make(2, 3), *torch.linalg.lu_factor(make.square(2)))


@samples("linalg.solve", "linalg.solve_ex")
@numbers
def solutions(make):
    yield sample(make.square(2), make(2))
    yield sample(make.square(2).mT, make.transposed(2, 2))
    yield sample(make.square(2), make(1, 2), left=False)
    yield sample(make.square(2, 3), make(3, 1))
    yield sample(make.square(1, 2), make(3, 2, 1))
    yield sample(make.square(2, 2), make.strided(2, 2, 2))
    yield sample(make(0, 0), make(0, 2))


@samples("linalg.inv", "linalg.inv_ex", "inverse")
@numbers
def inverses(make):
    for a in make.layouts(make.square, 2):
        yield sample(a)
    yield sample(make.square(3).flip(-1))
    yield sample(make(0, 0))
    yield sample(make(0, 2, 2))


@samples("linalg.det", "linalg.slogdet", "det", "slogdet", "logdet")
@numbers
def determinants(make):
    for a in make.layouts(make.square, 2):
        yield sample(a)
    yield sample(make.square(3))
    yield sample(make.square(1))
    yield sample(make(0, 0))


@samples("linalg.tensorinv")
@numbers
def tensor_inverses(make):
    yield sample(make.square(4).reshape(2, 2, 2, 2))
    yield sample(make.square(4).reshape(2, 2, 4), ind=2)
    yield sample(make.square(2).mT, ind=1)


@samples("linalg.tensorsolve")
@numbers
def tensor_solutions(make):
    yield sample(make.square(4).reshape(2, 2, 4), make(2, 2))
    yield sample(make.square(4).reshape(4, 2, 2), make.strided(4))
    yield sample(make.square(4).reshape(2, 4, 2), make(2, 2), (1,))


@samples("linalg.eigh", "linalg.eigvalsh")
@numbers
def hermitian_eigenvalues(make):
    for a in make.layouts(make.hermitian, 2):
        yield sample(a)
    yield sample(make.hermitian(3), "U")
    yield sample(make.hermitian(1))
    yield sample(make(0, 0))


@samples("linalg.eig", "linalg.eigvals")
@numbers
def eigenvalues(make):
    for a in make.layouts(make.square, 2):
        yield sample(a)
    yield sample(make.square(3))
    yield sample(make(0, 0))


@samples("linalg.svd")
@numbers
def singular_vectors(make):
    for a in make.layouts(make.square, 2):
        yield sample(a)
    yield sample(make.any(3, 2), full_matrices=False)
    yield sample(make.any(2, 3), False)
    yield sample(make(0, 0))
    yield sample(make(2, 0, 3), False)


@samples("svd")
@numbers
def former_singular_vectors(make):
    yield sample(make.square(2))
    yield sample(make.any(3, 2))
    yield sample(make.any(2, 2, 3), True)
    yield sample(make.any(3, 2), compute_uv=False)


@samples("linalg.svdvals")
@numbers
def singular_values(make):
    for a in make.layouts(make.square, 2):
        yield sample(a)
    yield sample(make.any(3, 2))
    yield sample(make.any(2, 3).mT)
    yield sample(make(0, 2))


@samples("linalg.qr")
@numbers
def qr_factors(make):
    for a in make.layouts(make.square, 2):
        yield sample(a)
    yield sample(make.any(3, 2))
    yield sample(make.any(2, 3))
    yield sample(make.any(2, 3), mode="complete")
    yield sample(make(0, 2))


@samples("qr")
@numbers
def former_qr_factors(make):
    yield sample(make.square(2))
    yield sample(make.any(3, 2), True)
    yield sample(make.any(2, 3), some=False)


@samples("geqrf")
@numbers
def reflections(make):
    yield sample(make.square(2))
    yield sample(make.any(3, 2).mT)
    yield sample(make.any(2, 3, 2))
    yield sample(make(0, 2))


@samples("linalg.householder_product", "orgqr")
@numbers
def products_of_reflections(make):
    yield sample(make(2, 2), make(2))
    yield sample(make.transposed(3, 2), make(2))
    yield sample(make(3, 2), make(1))
    yield sample(make(2, 2, 1), make(2, 1))


@samples("ormqr")
@numbers
def applied_reflections(make):
    yield sample(make(2, 2), make(2), make(2, 1))
    yield sample(make(3, 2), make(2), make.transposed(3, 2), True, True)
    yield sample(make(3, 2), make(2), make(2, 3), False)
    yield sample(make(2, 2, 1), make(2, 1), make(2, 1, 2), left=False, transpose=True)


@samples("linalg.ldl_factor", "linalg.ldl_factor_ex")
@numbers
def ldl_factors(make):
    for a in make.layouts(make.hermitian, 3):
        yield sample(a, hermitian=True)
    yield sample(make.square(2) + make.square(2).mT)
    yield sample(make(0, 0))


@samples("linalg.ldl_solve")
@numbers
def ldl_solutions(make):
    def factors(a, hermitian):
        return torch.linalg.ldl_factor(a, hermitian=hermitian)

    yield sample(*factors(make.hermitian(2), True), make(2, 1), hermitian=True)
    yield sample(*factors(make.hermitian(2, 3), True), make(2, 3, 2), hermitian=True)
    yield sample(*factors(make.square(2) + make.square(2).mT, False), make.transposed(2, 2))


@samples("linalg.lstsq")
@numbers
def least_squares(make):
    yield sample(make.any(3, 2), make(3, 1))
    yield sample(make.any(2, 3), make.transposed(2, 2))
    yield sample(make.any(3, 2), make(3, 2), driver="gels")
    yield sample(make.any(2, 3, 2), make(2, 3, 1), driver="gelsd")
    yield sample(make.any(2, 2), make(2), 1e-6, driver="gelss")


@samples("linalg.pinv")
@numbers
def pseudo_inverses(make):
    for a in make.layouts(make.square, 2):
        yield sample(a)
    yield sample(make.any(3, 2))
    yield sample(make.any(2, 3), atol=1e-3)
    yield sample(make.any(2, 3, 2), rtol=torch.tensor(1e-3).to(make.dtype.to_real()))
    yield sample(make.any(3, 2), 1e-4)
    yield sample(make(0, 2))


@samples("pinverse")
@numbers
def former_pseudo_inverses(make):
    yield sample(make.square(2))
    yield sample(make.any(3, 2), 1e-4)
    yield sample(make.any(2, 2, 3))


@samples("linalg.matrix_rank")
@numbers
def ranks(make):
    yield sample(make.any(3, 2))
    yield sample(make.square(2, 2), atol=0.5, rtol=0.1)
    yield sample(make.hermitian(3), hermitian=True)
    yield sample(make.square(3), 2.0)
    yield sample(make(0, 2))


@samples("linalg.matrix_exp", "matrix_exp")
@numbers
def exponentials(make):
    for a in make.layouts(make.square, 2):
        yield sample(a)
    yield sample(make.square(3) * 4)
    yield sample(make(0, 0))


@samples("linalg.matrix_power", "matrix_power")
@numbers
def powers(make):
    for n, a in enumerate(make.layouts(make.square, 2)):
        yield sample(a, n + 1)
    yield sample(make.square(2), 0)
    yield sample(make.square(2), -2)
    yield sample(make.square(2), 5)


@samples("linalg.matmul")
@numbers
def products(make):
    yield sample(make(2, 3), make(3, 2))
    yield sample(make.transposed(2, 3), make.strided(3))
    yield sample(make(2, 1, 2), make(2, 3))


@samples("linalg.diagonal")
@numbers
def diagonals(make):
    yield sample(make(3, 2))
    yield sample(make.transposed(2, 3, 2), offset=1)
    yield sample(make.strided(2, 2, 2), offset=-1, dim1=0, dim2=2)


@samples("linalg.vecdot")
@numbers
def dots(make):
    yield sample(make(3), make(3))
    yield sample(make.transposed(2, 3), make.strided(2, 3))
    yield sample(make(2, 3), make(1, 3), dim=0)


@samples("linalg.vander")
@numbers
def vandermonde(make):
    yield sample(make(3))
    yield sample(make.strided(2), N=4)
    yield sample(make.transposed(2, 3), N=2)


@samples("adjoint")
@numbers
def adjoints(make):
    yield sample(make(2, 3))
    yield sample(make.transposed(2, 3, 2))
    yield sample(make())


@samples("linalg.matrix_norm")
@numbers
def matrix_norms(make):
    yield sample(make.any(2, 3))
    yield sample(make.any(3, 2).mT, "nuc")
    yield sample(make.any(2, 2, 3), 2)
    yield sample(make.any(2, 2), -2, keepdim=True)
    yield sample(make.any(2, 3), 1, (1, 0))
    yield sample(make.any(2, 3, 2), float("inf"), (0, 2), True)
    yield sample(make.any(2, 2), -1)
    yield sample(make.any(2, 3), -float("inf"))
    yield sample(make.any(2, 2, 2), "nuc", (0, 2), keepdim=True)


@samples("linalg.norm")
@numbers
def norms(make):
    yield sample(make.any(2, 3))
    yield sample(make(3), 3)
    yield sample(make.any(2, 2), 2)
    yield sample(make.any(2, 3), "fro")
    yield sample(make.any(2, 2, 3), 1, (1, 2))
    yield sample(make.any(2, 2), dim=1, keepdim=True)


@samples("nuclear_norm")
@numbers
def nuclear_norms(make):
    yield sample(make.any(2, 3))
    yield sample(make.any(2, 2, 3), (0, 2), True)
    yield sample(make.any(3, 2).mT)


@samples("frobenius_norm")
@numbers
def frobenius_norms(make):
    yield sample(make.any(2, 3), (0, 1))
    yield sample(make.any(2, 2, 3), (0, 2), True)
    yield sample(make.transposed(2, 3), 1)


@samples("linalg.cond")
@numbers
def condition_numbers(make):
    yield sample(make.any(2, 3))
    yield sample(make.square(2, 2), -2)
    yield sample(make.square(2).mT, 1)
    yield sample(make.square(2), "fro")
    yield sample(make.square(2), "nuc")
    yield sample(make.square(2), float("inf"))


@samples("cov")
@numbers
def covariances(make):
    yield sample(make(2, 3))
    yield sample(make.transposed(2, 4), correction=0)
    yield sample(make.strided(4))
    yield sample(make(2, 3), fweights=torch.tensor([1, 2, 1]))
    if not make.dtype.is_complex:
        yield sample(make(2, 3), aweights=make.positive(3))


@samples("corrcoef")
@numbers
def correlations(make):
    yield sample(make(2, 3))
    yield sample(make.transposed(2, 4))
    yield sample(make.strided(2, 5))
