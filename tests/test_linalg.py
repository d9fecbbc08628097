"""Linear algebra where it is delicate: singular, empty, repeated, not finite, not Hermitian."""

import re

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.func import vmap
from rushlight.linalg import LinAlgError
from support import check

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def matrix(*shape, dtype=torch.float64, seed=0):
    random = np.random.default_rng(seed)
    numbers = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    return torch.tensor(numbers if dtype.is_complex else numbers.real).to(dtype)


def close(dtype):
    coarse = dtype in (torch.float32, torch.complex64)
    return {"rtol": 1e-4, "atol": 1e-4} if coarse else {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(4, 4), (5, 3), (3, 5), (2, 3, 4, 3), (0, 3), (2, 0, 0), (0, 2, 2)]
)
def test_factors_multiply_to_the_matrix(dtype, shape):
    a = matrix(*shape, dtype=dtype)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    check((u * s.unsqueeze(-2).to(dtype)) @ vh, a, **close(dtype))
    q, r = torch.linalg.qr(a)
    check(q @ r, a, **close(dtype))
    p, lower, upper = torch.linalg.lu(a)
    check(p @ lower @ upper, a, **close(dtype))
    full = torch.linalg.svd(a)
    assert full.U.shape[-1] == shape[-2]
    assert full.Vh.shape[-2] == shape[-1]
    check(
        full.U.mH @ full.U, torch.eye(shape[-2], dtype=dtype).expand(full.U.shape), **close(dtype)
    )


@pytest.mark.parametrize("scale", [1, 1e30])
@pytest.mark.parametrize("shape", [(200, 200), (260, 200), (450, 200), (200, 210)])
def test_large_factors_multiply_to_the_matrix(shape, scale):
    """Cut into blocks, unless the numbers are so large that LAPACK scales them."""
    a = matrix(*shape, dtype=torch.float32)
    for full in (False, True):
        u, s, vh = torch.linalg.svd(a * scale, full_matrices=full)
        check(u[:, :200] * (s / scale) @ vh[:200], a, **close(a.dtype))
        check(u.mT @ u, torch.eye(u.shape[1]), **close(a.dtype))
        check(vh @ vh.mT, torch.eye(vh.shape[0]), **close(a.dtype))
    b = a[:200, :200] + a[:200, :200].mT
    for part in "LU":
        w, v = torch.linalg.eigh(b * scale, UPLO=part)
        check(v * (w / scale) @ v.mT, b, **close(a.dtype))
        check(v.mT @ v, torch.eye(200), **close(a.dtype))


@pytest.mark.parametrize("shape", [(300, 300), (420, 300), (300, 420)])
@pytest.mark.parametrize("rank", [3, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_matrices_of_several_panels(dtype, rank, shape):
    rows, columns = shape
    a = matrix(rows, rank, dtype=dtype) @ matrix(rank, columns, dtype=dtype, seed=1)
    a /= torch.linalg.matrix_norm(a)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    check((u * s) @ vh, a, **close(dtype))
    check(u.mT @ u, torch.eye(300, dtype=dtype), **close(dtype))
    check(vh @ vh.mT, torch.eye(300, dtype=dtype), **close(dtype))
    check(torch.linalg.svdvals(a), s, **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (0, 0), (0, 2, 2), (1, 1)])
def test_square_factors_multiply_to_the_matrix(dtype, shape):
    a = matrix(*shape, dtype=dtype)
    eye = torch.eye(shape[-1], dtype=dtype)
    hermitian, definite = a + a.mH, a @ a.mH + eye
    w, v = torch.linalg.eigh(hermitian)
    check((v * w.unsqueeze(-2).to(dtype)) @ v.mH, hermitian, **close(dtype))
    w, v = torch.linalg.eig(a)
    check(a.to(v.dtype) @ v, v * w.unsqueeze(-2), **close(dtype))
    for upper in (False, True):
        factor = torch.linalg.cholesky(definite, upper=upper)
        product = factor.mH @ factor if upper else factor @ factor.mH
        check(product, definite, **close(dtype))
    check(a @ torch.linalg.inv(a), eye.expand(a.shape), **close(dtype))
    b = matrix(*shape[:-1], 2, dtype=dtype, seed=1)
    check(a @ torch.linalg.solve(a, b), b, **close(dtype))
    check(torch.linalg.solve(a, b.mT, left=False) @ a, b.mT, **close(dtype))
    lu, pivots = torch.linalg.lu_factor(a)
    check(a @ torch.linalg.lu_solve(lu, pivots, b), b, **close(dtype))
    check(a.mH @ torch.linalg.lu_solve(lu, pivots, b, adjoint=True), b, **close(dtype))
    ld, pivots = torch.linalg.ldl_factor(hermitian, hermitian=True)
    solved = torch.linalg.ldl_solve(ld, pivots, b, hermitian=True)
    check(hermitian @ solved, b, **close(dtype))
    sign, log = torch.linalg.slogdet(a)
    check(sign * log.exp(), torch.linalg.det(a), **close(dtype))


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "text"),
        [
            (torch.linalg.cholesky, "Batch element 1.*leading minor of order 2 is not positive"),
            (torch.linalg.inv, "Batch element 1.*diagonal element 2 is zero"),
            (lambda a: torch.linalg.solve(a, torch.ones(2, 2, 1)), "Batch element 1.*singular"),
        ],
    )
    def test_the_batch_element_is_named(self, call, text):
        a = torch.stack([torch.eye(2), torch.diag(torch.tensor([1.0, 0.0]))])
        with pytest.raises(LinAlgError, match=text):
            call(a)

    def test_it_is_a_runtime_error_of_the_core(self):
        assert issubclass(LinAlgError, RuntimeError)
        assert torch._C._LinAlgError is LinAlgError

    @pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals"])
    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_numbers_that_are_not_finite(self, name, bad):
        with pytest.raises(RuntimeError, match=r"non-finite|infs or NaNs|converge"):
            getattr(torch.linalg, name)(torch.full((3, 3), bad))

    @pytest.mark.parametrize(
        "name", ["cholesky", "inv", "det", "slogdet", "eigh", "eig", "matrix_exp", "ldl_factor"]
    )
    def test_matrices_that_are_not_square(self, name):
        f = getattr(torch.linalg, name)
        with pytest.raises(RuntimeError, match="square matrices, but they are 2 by 3"):
            f(torch.ones(2, 3))
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            f(torch.ones(3))

    @pytest.mark.parametrize("name", ["cholesky", "inv", "eigh", "svd", "qr", "det", "lu_factor"])
    def test_integers_and_halves(self, name):
        f = getattr(torch.linalg, name)
        with pytest.raises(RuntimeError, match="floating point or complex"):
            f(torch.eye(2, dtype=torch.int64))
        with pytest.raises(NotImplementedError, match="Low precision"):
            f(torch.eye(2, dtype=torch.float16))

    def test_shapes_that_do_not_fit(self):
        with pytest.raises(RuntimeError, match=re.escape("equation AX = B (2x2 and 3x1)")):
            torch.linalg.solve(torch.eye(2), torch.ones(3))
        with pytest.raises(RuntimeError, match="same dtype"):
            torch.linalg.solve(torch.eye(2), torch.ones(2, dtype=torch.float64))
        with pytest.raises(RuntimeError, match="UPLO"):
            torch.linalg.eigh(torch.eye(2), "X")
        with pytest.raises(RuntimeError, match="unrecognized mode"):
            torch.linalg.qr(torch.eye(2), "full")
        with pytest.raises(RuntimeError, match="driver"):
            torch.linalg.lstsq(torch.eye(2), torch.ones(2, 1), driver="x")
        with pytest.raises(RuntimeError, match="Order 5 not supported"):
            torch.linalg.matrix_norm(torch.eye(2), 5)

    def test_pivots_out_of_range(self):
        wrong = torch.tensor([1, 9], dtype=torch.int32)
        with pytest.raises(RuntimeError, match="lu_factor"):
            torch.linalg.lu_solve(torch.eye(2), wrong, torch.ones(2, 1))
        with pytest.raises(RuntimeError, match="lu_factor"):
            torch.lu_unpack(torch.eye(2), wrong)
        with pytest.raises(RuntimeError, match="ldl_factor"):
            torch.linalg.ldl_solve(torch.eye(2), wrong, torch.ones(2, 1))
        for unpaired in ([1, -2], [-1, 2], [-1, -2, -3], [-1, 2, -3]):
            rows = torch.tensor(unpaired, dtype=torch.int32)
            with pytest.raises(RuntimeError, match="negative in pairs"):
                torch.linalg.ldl_solve(torch.eye(len(rows)), rows, torch.ones(len(rows), 1))

    @pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
    @pytest.mark.parametrize("hermitian", [True, False])
    def test_ldl_solve_is_derived_by_the_right_side(self, dtype, hermitian):
        a = matrix(3, 3).to(dtype) + (1j * matrix(3, 3, seed=5) if dtype.is_complex else 0)
        a = a + (a.mH if hermitian else a.mT)
        ld, pivots = torch.linalg.ldl_factor(a, hermitian=hermitian)
        b = matrix(3, 2, seed=1).to(dtype).requires_grad_()

        def f(b):
            return torch.linalg.ldl_solve(ld, pivots, b, hermitian=hermitian)

        assert torch.autograd.gradcheck(f, (b,), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(lambda b: f(b) ** 2, (b,))

    def test_factors_of_ldl_have_no_derivative(self):
        ld, pivots = torch.linalg.ldl_factor(torch.eye(2))
        with pytest.raises(NotImplementedError, match=r"linalg\.solve"):
            torch.func.jvp(
                lambda u: torch.linalg.ldl_solve(u, pivots, torch.ones(2, 1)), (ld,), (ld,)
            )

    def test_forms_without_errors(self):
        singular = torch.zeros(2, 2)
        assert torch.linalg.inv_ex(singular).info == 1
        assert torch.linalg.cholesky_ex(singular).info == 1
        assert torch.linalg.lu_factor_ex(singular).info == 1
        assert torch.linalg.solve_ex(singular, torch.ones(2)).info == 1
        with pytest.raises(LinAlgError):
            torch.linalg.inv_ex(singular, check_errors=True)


class TestRepeatedValues:
    """Matrices some of whose singular values or eigenvalues are equal."""

    def repeated(self):
        q = torch.linalg.qr(matrix(4, 4, seed=5)).Q
        return q @ torch.diag(torch.tensor([3.0, 2.0, 2.0, 1.0], dtype=torch.float64)) @ q.mT

    def test_symmetric_functions_of_the_values(self):
        a = self.repeated().requires_grad_()
        (g,) = torch.autograd.grad((torch.linalg.eigvalsh(a) ** 2).sum(), a)
        check(g, 2 * a.detach(), rtol=1e-9, atol=1e-9)
        (g,) = torch.autograd.grad((torch.linalg.svdvals(a) ** 2).sum(), a)
        check(g, 2 * a.detach(), rtol=1e-9, atol=1e-9)

    def test_the_nuclear_norm_twice(self):
        a = torch.eye(3, dtype=torch.float64) * 2
        f = lambda x: torch.linalg.matrix_norm(x, "nuc")
        assert gradcheck(f, a.clone().requires_grad_())
        assert gradgradcheck(f, a.clone().requires_grad_())

    def test_projections_on_all_vectors_of_equal_values(self):
        def project(x):
            v = torch.linalg.eigh((x + x.mT) / 2).eigenvectors[:, 1:3]
            return v @ v.mT

        assert gradcheck(project, self.repeated().requires_grad_(), atol=1e-4)

        def left(x):
            u = torch.linalg.svd(x).U[:, 1:3]
            return u @ u.mT

        assert gradcheck(left, self.repeated().requires_grad_(), atol=1e-4)

    def test_a_large_gradient_of_matrix_exp_loses_no_digits(self):
        a = torch.tensor([[0.7, 0.2], [-0.3, 1.1]], dtype=torch.float64, requires_grad=True)
        g = torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64)
        (small,) = torch.autograd.grad(torch.linalg.matrix_exp(a), a, g)
        (large,) = torch.autograd.grad(torch.linalg.matrix_exp(a), a, g * 2.0**60)
        assert torch.equal(large, small * 2.0**60)

    def test_matrix_functions_know_no_gaps(self):
        a = torch.eye(3, dtype=torch.float64, requires_grad=True)
        assert gradcheck(torch.linalg.matrix_exp, a)
        assert gradcheck(torch.linalg.pinv, a)
        assert gradgradcheck(torch.linalg.pinv, a)

    @pytest.mark.parametrize("name", ["eigh", "svd"])
    def test_what_has_no_derivative_is_explained(self, name):
        a = torch.eye(3, dtype=torch.float64, requires_grad=True)
        found = getattr(torch.linalg, name)(a)
        loss = (found[1] if name == "eigh" else found[0])[0].cumsum(0).sum() ** 2
        with pytest.raises(RuntimeError, match=r"values are equal .* free up to a rotation"):
            loss.backward()


class TestSingularMatrices:
    def test_the_determinant_has_all_derivatives(self):
        a = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]], dtype=torch.float64)
        assert torch.linalg.det(a) == 0
        assert gradcheck(torch.linalg.det, a.clone().requires_grad_())
        assert gradgradcheck(torch.linalg.det, a.clone().requires_grad_())
        zero = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
        (g,) = torch.autograd.grad(torch.linalg.det(zero), zero)
        assert not g.any()

    def test_norms_and_ranks(self):
        a = torch.ones(3, 3, dtype=torch.float64)
        assert torch.linalg.matrix_rank(a) == 1
        assert torch.linalg.cond(a, 1) == float("inf")
        check(torch.linalg.pinv(a), a / 9)
        assert torch.linalg.matrix_norm(a, 2).item() == pytest.approx(3)

    def test_logdet(self):
        assert torch.logdet(torch.zeros(2, 2)) == -float("inf")
        assert torch.logdet(torch.diag(torch.tensor([1.0, -1.0]))).isnan()


class TestDerivatives:
    def test_phases_of_complex_vectors_are_free(self):
        a = matrix(3, 3, dtype=torch.complex128).requires_grad_()
        for loss in (
            torch.linalg.svd(a).U.real.sum(),
            torch.linalg.eig(a).eigenvectors.real.sum(),
            torch.linalg.eigh(a).eigenvectors.real.sum(),
        ):
            with pytest.raises(RuntimeError, match="ill-defined"):
                loss.backward()

    @pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
    def test_complex_functions_that_do_not_depend_on_phases(self, shape):
        def products(x):
            u, s, vh = torch.linalg.svd(x, full_matrices=False)
            return u @ vh, s, u.abs(), vh.abs()

        a = matrix(*shape, dtype=torch.complex128).requires_grad_()
        assert gradcheck(products, a)
        assert gradgradcheck(lambda x: products(x)[:2], a, atol=1e-4)

    @pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
    def test_complex_factors(self, shape):
        a = matrix(*shape, dtype=torch.complex128).requires_grad_()
        assert gradcheck(lambda x: tuple(torch.linalg.qr(x)), a)
        assert gradcheck(lambda x: torch.linalg.lu(x)[1:], a)
        assert gradcheck(torch.linalg.pinv, a)

    def test_modes_of_qr_without_a_derivative(self):
        a = matrix(4, 3).requires_grad_()
        with pytest.raises(RuntimeError, match="mode='r'"):
            torch.linalg.qr(a, "r").R.sum().backward()
        with pytest.raises(RuntimeError, match="mode='complete' and nrows > ncols"):
            torch.linalg.qr(a, "complete").R.sum().backward()

    def test_columns_that_full_matrices_adds_are_free(self):
        a = matrix(4, 2).requires_grad_()
        u, s, vh = torch.linalg.svd(a)
        (g,) = torch.autograd.grad((u[:, :2] @ vh).sum() + s.sum(), a)
        u, s, vh = torch.linalg.svd(a, full_matrices=False)
        check(g, torch.autograd.grad((u @ vh).sum() + s.sum(), a)[0])

    def test_gradients_of_one_triangle_are_hermitian(self):
        a = matrix(3, 3)
        a = (a @ a.mT + torch.eye(3, dtype=torch.float64)).requires_grad_()
        (g,) = torch.autograd.grad(torch.linalg.cholesky(a).sum(), a)
        check(g, g.mT)


class TestBatches:
    def test_a_batch_is_its_matrices(self):
        a = matrix(40, 6, 6)
        for f in (torch.linalg.inv, torch.linalg.det, torch.linalg.svdvals, torch.linalg.eigvals):
            check(f(a), torch.stack([f(x) for x in a]), rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("shape", [(200, 8, 8), (420, 300)])
    def test_the_number_of_threads_does_not_change_a_bit(self, shape):
        a = matrix(*shape, dtype=torch.float32)
        before = torch.get_num_threads()
        try:
            found = []
            for count in (1, 2):
                torch.set_num_threads(count)
                found.append(torch.linalg.svd(a))
            for one, two in zip(*found, strict=True):
                assert torch.equal(one, two)
        finally:
            torch.set_num_threads(before)

    def test_vmap_with_one_matrix_for_all(self):
        a, b = matrix(3, 3), matrix(5, 3)
        check(vmap(torch.linalg.solve, (None, 0))(a, b), torch.linalg.solve(a, b.mT).mT)

    def test_the_adjoint_of_a_number_is_its_conjugate(self):
        z = torch.tensor(1 + 2j)
        assert z.adjoint() == z.mH == z.H == torch.tensor(1 - 2j)
        assert z.mT == z.T == z

    def test_conjugates_transposes_and_slices(self):
        a = matrix(8, 8, dtype=torch.complex128)
        for view in (a.mT, a.mH, a[::2, ::2], a.conj()[1:6, 1:6]):
            check(torch.linalg.inv(view), torch.linalg.inv(view.clone().contiguous()))

    def test_out(self):
        a = matrix(3, 3)
        w, v = torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
        torch.linalg.eigh(a + a.mT, out=(w, v))
        check(w, torch.linalg.eigvalsh(a + a.mT))


class TestLowRank:
    def test_svd_of_a_matrix_of_low_rank(self):
        a = matrix(30, 3) @ matrix(3, 20, seed=1)
        for x in (a, a.mT):
            u, s, v = torch.svd_lowrank(x, q=5)
            check(u @ torch.diag(s) @ v.mT, x, rtol=1e-8, atol=1e-8)
        mean = torch.ones(20, dtype=torch.float64)
        u, s, v = torch.svd_lowrank(a + mean, q=4, M=mean)
        check(u @ torch.diag(s) @ v.mT, a, rtol=1e-8, atol=1e-8)

    def test_principal_components(self):
        a = matrix(30, 3) @ matrix(3, 20, seed=1)
        u, s, v = torch.pca_lowrank(a, q=4)
        check(u @ torch.diag(s) @ v.mT, a - a.mean(0), rtol=1e-8, atol=1e-8)
        with pytest.raises(ValueError, match="not greater than min"):
            torch.pca_lowrank(a, q=21)

    @pytest.mark.parametrize("largest", [True, False])
    def test_lobpcg(self, largest):
        a = matrix(20, 20)
        a = a @ a.mT + torch.diag(torch.arange(20.0, dtype=torch.float64))
        values, vectors = torch.lobpcg(a, k=3, largest=largest, tol=1e-9)
        all_values = torch.linalg.eigvalsh(a)
        check(values, all_values.flip(0)[:3] if largest else all_values[:3], rtol=1e-7, atol=1e-7)
        check(a @ vectors, vectors * values, rtol=1e-5, atol=1e-4)

    def test_lobpcg_of_a_pencil_and_a_batch(self):
        a, b = matrix(2, 12, 12), matrix(12, 12, seed=3)
        a, b = a @ a.mT, b @ b.mT / 12 + torch.eye(12, dtype=torch.float64)
        values, vectors = torch.lobpcg(a, k=2, B=b, tol=1e-9)
        check(a @ vectors, b @ vectors * values.unsqueeze(-2), rtol=1e-4, atol=1e-4)

    def test_lobpcg_of_numbers_that_are_not_finite(self):
        a = torch.eye(9)
        a[3, 3] = float("nan")
        with pytest.raises(torch.linalg.LinAlgError, match="A contains non-finite values"):
            torch.lobpcg(a, k=1)

    def test_lobpcg_has_a_gradient(self):
        a = matrix(9, 9)
        a = (a @ a.mT + torch.diag(torch.arange(9.0, dtype=torch.float64))).requires_grad_()
        weight = matrix(9, 9, seed=2)
        values, vectors = torch.lobpcg(a, k=2, tol=1e-13)
        loss = values.sum() + (vectors @ vectors.mT * weight).sum()
        (found,) = torch.autograd.grad(loss, a)
        w, v = torch.linalg.eigh(a)
        v = v[:, -2:]
        (wanted,) = torch.autograd.grad(w[-2:].sum() + (v @ v.mT * weight).sum(), a)
        check(found, wanted, rtol=1e-5, atol=1e-6)

    def test_removed_functions_say_what_to_use(self):
        for name in ("eig", "symeig", "solve", "lstsq", "matrix_rank"):
            with pytest.raises(RuntimeError, match=f"torch.linalg|{name}"):
                getattr(torch, name)(torch.eye(2))


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (0, 3)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_all_vectors_of_svd_stay_orthonormal_as_the_matrix_moves(shape, dtype):
    torch.manual_seed(0)
    a, t = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    (u, s, vh), (du, ds, dvh) = torch.func.jvp(torch.linalg.svd, (a,), (t,))
    k = s.shape[-1]
    for q, dq in ((u, du), (vh.mH, dvh.mH)):
        turn = q.mH @ dq
        check(turn + turn.mH, torch.zeros_like(turn))
    moved = du[:, :k] * s @ vh[:k] + u[:, :k] * ds @ vh[:k] + u[:, :k] * s @ dvh[:k]
    check(moved, t)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [2, 3, 8, 16])
def test_of_equal_rows_nothing_is_left(n, dtype):
    torch.manual_seed(0)
    a = torch.randn(50, n, n, dtype=dtype)
    a[:, -1] = a[:, 0]
    assert (torch.linalg.lu_factor_ex(a).info == n).all()
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(a)
