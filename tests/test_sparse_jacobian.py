"""Jacobians by coloring, and rearrange."""

import pytest

import rushlight as torch
from rushlight.func import banded_jacobian, coloring, grad, jacrev, rearrange, sparse_jacobian, vmap
from support import check, randn


def neighbours(x):
    """A step of diffusion with a reaction: each result depends on three elements."""
    padded = torch.cat([x[:1], x, x[-1:]])
    return padded[2:] * x - padded[:-2].sin() + x**3


def tridiagonal(n):
    i = torch.arange(n)
    return (i[:, None] - i[None, :]).abs() <= 1


@pytest.mark.parametrize("by", [None, "columns", "rows"])
def test_a_known_pattern(by):
    x = randn(12)
    groups = coloring(tridiagonal(12), by)
    assert groups.count == 3
    found = sparse_jacobian(neighbours, x, groups)
    assert found.indices.shape == (2, 34)
    check(found.to_dense(), jacrev(neighbours)(x))
    check(sparse_jacobian(neighbours, x, tridiagonal(12)).values, found.values)


def test_no_group_has_two_lines_that_meet():
    pattern = torch.tensor((randn(30, 20) > 1).tolist())
    for by, lines in (("columns", pattern.T), ("rows", pattern)):
        groups = coloring(pattern, by)
        for color in range(groups.count):
            assert int(lines[groups.colors == color].long().sum(0).max()) <= 1


def test_one_full_row_is_a_case_for_rows():
    pattern = torch.eye(8, dtype=torch.bool)
    pattern[0] = True
    assert coloring(pattern, "columns").count == 8
    assert coloring(pattern).by == "rows"
    assert coloring(pattern).count == 2

    def f(x):
        return torch.cat([x.sum()[None], x[1:] ** 2])

    x = randn(8)
    check(sparse_jacobian(f, x, pattern).to_dense(), jacrev(f)(x))


def test_the_function_runs_once_for_all_groups():
    calls = []

    def f(x):
        calls.append(x)
        return neighbours(x)

    banded_jacobian(f, randn(100), 1)
    assert len(calls) == 1


@pytest.mark.parametrize(("n", "lower", "upper"), [(9, 1, 1), (9, 2, 1), (2, 4, 4), (1, 0, 0)])
def test_bands(n, lower, upper):
    f = neighbours if lower and upper else torch.exp
    x = randn(n)
    check(banded_jacobian(f, x, lower, upper).to_dense(), jacrev(f)(x))


def test_bands_of_functions_that_are_not_square():
    f = lambda x: x[1:] * x[:-1]
    x = randn(6)
    check(banded_jacobian(f, x, 0, 1).to_dense(), jacrev(f)(x))
    g = lambda x: torch.cat([x[:1], x[1:] * x[:-1], x[-1:]])
    check(banded_jacobian(g, x, 1, 0).to_dense(), jacrev(g)(x))


def test_in_other_transforms():
    x = randn(4, 6)
    sums = lambda x: sparse_jacobian(torch.exp, x, torch.eye(6)).values.sum()
    check(vmap(sums)(x), x.exp().sum(1))
    check(vmap(grad(sums))(x), x.exp())


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="5 columns for 6 elements"):
        sparse_jacobian(torch.exp, randn(6), torch.eye(5))
    for by in ("columns", "rows"):
        with pytest.raises(ValueError, match="2 rows for a result of 6 elements"):
            sparse_jacobian(torch.exp, randn(6), coloring(torch.ones(2, 6), by))
    with pytest.raises(ValueError, match="must be a matrix"):
        coloring(torch.ones(3))
    with pytest.raises(ValueError, match="'columns', 'rows' or None"):
        coloring(torch.eye(3), "diagonals")
    with pytest.raises(ValueError, match="no diagonals"):
        banded_jacobian(torch.exp, randn(3), 1, -2)


# -- rearrange ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "sizes", "right"),
    [
        ("a b c -> c b a", {}, lambda x: x.permute(2, 1, 0)),
        ("a b c -> (a b) c", {}, lambda x: x.reshape(6, 4)),
        ("a (b d) c -> a d b c", {"b": 3}, lambda x: x.reshape(2, 3, 1, 4).transpose(1, 2)),
        ("a b (c d) -> (a c) (b d)", {"d": 2}, None),
        ("... c -> c ...", {}, lambda x: x.permute(2, 0, 1)),
        ("a ... -> (... a)", {}, lambda x: x.permute(1, 2, 0).reshape(-1)),
        ("a b c -> a 1 b (c)", {}, lambda x: x.unsqueeze(1)),
        ("a b c -> a () b c", {}, lambda x: x.unsqueeze(1)),
        ("a b c ... -> ... a b c", {}, lambda x: x),
    ],
)
def test_rearrange(pattern, sizes, right):
    x = randn(2, 3, 4)
    if right is None:
        right = lambda x: x.reshape(2, 3, 2, 2).permute(0, 2, 1, 3).reshape(4, 6)
    check(rearrange(x, pattern, **sizes), right(x))


def test_rearrange_stacks_a_list_and_drops_ones():
    x = randn(2, 1)
    check(rearrange([x, x + 1], "n a 1 -> a n"), torch.cat([x, x + 1], 1))


@pytest.mark.parametrize(
    ("pattern", "sizes", "text"),
    [
        ("a b c", {}, "single '->'"),
        ("a b -> b a", {}, r"pattern \(2\).*tensor \(3\)"),
        ("a b c -> a b", {}, "only on one side.*'c'"),
        ("a a c -> a c", {}, "duplicate dimension 'a'"),
        ("(a ...) -> a ...", {}, "Ellipsis in parenthesis"),
        ("a b c -> a b (c", {}, "Imbalanced"),
        ("a b c -> a b c)", {}, "Imbalanced"),
        ("a b c -> a (b (c))", {}, "one-level"),
        ("a b c -> c b a", {"z": 3}, "not found.*'z'"),
        ("a b 4 -> a b", {}, "unnamed axes of size 1"),
        ("a b _c -> a b _c", {}, "Invalid axis identifier: _c"),
        ("a (b d) c -> a b d c", {}, "two dimensions at once, b and d"),
        ("a (b d) c -> a b d c", {"b": 2}, r"size 3 does not fit \(b d\)"),
        ("a b c -> c b a", {"a": 5}, "size 2 does not fit"),
    ],
)
def test_rearrange_refuses(pattern, sizes, text):
    with pytest.raises(ValueError, match=text):
        rearrange(randn(2, 3, 4), pattern, **sizes)
