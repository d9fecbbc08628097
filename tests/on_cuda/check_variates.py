"""Numbers drawn by rejection, their gradients, and products with sparse matrices: on the device."""

import pytest

import rushlight as torch
from rushlight.distributions import Beta, Binomial, Dirichlet, Gamma, Poisson


def test_what_they_draw():
    shape = torch.full((5000,), 2.0, device="cuda")
    torch.cuda.manual_seed(3)
    for found, mean in (
        (Gamma(shape, 4 * torch.ones_like(shape)).sample(), 0.5),
        (Beta(shape, shape).sample(), 0.5),
        (Poisson(shape).sample(), 2.0),
        (Binomial(10, torch.full((5000,), 0.3, device="cuda")).sample(), 3.0),
        (Dirichlet(torch.ones(500, 4, device="cuda")).sample(), 0.25),
        (torch.poisson(shape), 2.0),
        (torch.binomial(10 * shape, shape / 4), 10.0),
    ):
        assert found.is_cuda
        assert found.mean().item() == pytest.approx(mean, rel=0.1)


def test_a_seed_gives_them_again():
    shape = torch.rand(100, device="cuda") + 0.5
    draws = []
    for _ in range(2):
        torch.cuda.manual_seed(11)
        draws.append([torch._standard_gamma(shape), torch.poisson(shape)])
    assert torch.equal(draws[0][0], draws[1][0])
    assert torch.equal(draws[0][1], draws[1][1])
    assert not torch.equal(draws[0][0], torch._standard_gamma(shape))


def test_wrong_rates():
    with pytest.raises(RuntimeError, match="invalid Poisson rate"):
        torch.poisson(torch.tensor([1.0, -1.0], device="cuda"))


def test_how_they_move():
    a = torch.tensor([0.3, 1.0, 4.0, 20.0])
    x = torch.tensor([0.2, 1.5, 3.0, 25.0])
    p = x / (x + 2)
    for f in (
        lambda a, x, p: torch._standard_gamma_grad(a, x),
        lambda a, x, p: torch._dirichlet_grad(p, a, a + 2),
    ):
        assert torch.allclose(f(a.cuda(), x.cuda(), p.cuda()).cpu(), f(a, x, p), rtol=1e-5)
    b = a.cuda().requires_grad_()
    for sample in (Gamma(b, b).rsample(), Beta(b, b + 1).rsample(), Dirichlet(b).rsample()):
        (g,) = torch.autograd.grad(sample.square().sum(), b)
        assert g.is_cuda
        assert g.isfinite().all().item()


def test_sparse_products():
    x = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    w = torch.arange(6.0).reshape(3, 2)
    for layout in ("to_sparse", "to_sparse_csr"):
        sparse = getattr(x.cuda(), layout)()
        there = w.cuda().requires_grad_()
        y = torch.sparse.mm(sparse, there)
        assert y.is_cuda
        assert torch.equal(y.detach().cpu(), x @ w)
        y.sum().backward()
        assert torch.equal(there.grad.cpu(), (x.T @ torch.ones(2, 2)))
