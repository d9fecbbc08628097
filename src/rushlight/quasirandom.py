"""Points that fill a cube evenly: Sobol' sequences.

The direction numbers are those of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better
two-dimensional projections", SIAM J. Sci. Comput. 30 (2008), in the file of 21201 dimensions.
"""

from __future__ import annotations

import os

import rushlight
from rushlight import Tensor
from rushlight._composed import _into

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SobolEngine"]

_BITS = 30
_TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_data", "sobol.bin")


def _primitive(degree: int) -> int:
    """How many primitive polynomials over two elements have the degree."""
    order = rest = 2**degree - 1
    for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 31, 43, 73, 89, 127, 151, 257, 8191, 131071):
        if rest % p == 0:
            order -= order // p
            while rest % p == 0:
                rest //= p
    return order // degree


def _rows() -> Iterator[tuple[int, int, list[int]]]:
    """Degree, inner coefficients and first numbers of each dimension after the first.

    A row of the file is one integer: the degree - 1 inner coefficients of the polynomial, then the
    odd numbers m[i] < 2**(i + 1) without their last bit. The degrees ascend, so the number of
    primitive polynomials says where each begins.
    """
    with open(_TABLE, "rb") as file:
        for degree in range(1, 19):
            size = (degree - 1 + degree * (degree - 1) // 2 + 7) // 8
            for _ in range(_primitive(degree)):
                bits = int.from_bytes(file.read(size), "little")
                inner, bits = bits & (1 << degree - 1) - 1, bits >> degree - 1
                numbers = []
                for i in range(degree):
                    numbers.append((bits & (1 << i) - 1) << 1 | 1)
                    bits >>= i
                yield degree, inner, numbers


def _directions(dimension: int) -> Tensor:
    """The direction numbers of the first dimensions, as integers of 30 bits."""
    table = [[1 << _BITS - 1 - j for j in range(_BITS)]]
    for degree, inner, m in _rows():
        if len(table) == dimension:
            break
        m = list(m)
        for j in range(degree, _BITS):
            new = m[j - degree] ^ m[j - degree] << degree
            for k in range(1, degree):
                if inner >> degree - 1 - k & 1:
                    new ^= m[j - k] << k
            m.append(new)
        table.append([number << _BITS - 1 - j for j, number in enumerate(m)])
    return rushlight.tensor(table, dtype=rushlight.int64)


class SobolEngine:
    """Draws the points of a Sobol' sequence in ``dimension`` dimensions, from 1 to 21201.

    ``scramble=True`` permutes the digits at random, by the seed; each draw stays evenly spread.

    >>> import rushlight as torch
    >>> engine = torch.quasirandom.SobolEngine(dimension=2)
    >>> engine.draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    >>> engine.fast_forward(1)
    SobolEngine(dimension=2)
    >>> engine.draw()
    tensor([[0.3750, 0.3750]])
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                "SobolEngine: Supported range of dimensionality for SobolEngine is "
                f"[1, {self.MAXDIM}]: got {dimension}"
            )
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = _directions(dimension)
        self.shift = rushlight.zeros(dimension, dtype=rushlight.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self.num_generated = 0

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = rushlight.Generator()
            generator.manual_seed(self.seed)
        powers = 2 ** rushlight.arange(_BITS)
        shape = (self.dimension, _BITS)
        self.shift = (rushlight.randint(2, shape, generator=generator) * powers).sum(-1)
        matrix = rushlight.randint(2, (*shape, _BITS), generator=generator).tril()
        matrix.diagonal(dim1=-2, dim2=-1).fill_(1)
        # The digits of each direction number, the first of which is the highest, times the matrix.
        digits = self.sobolstate.unsqueeze(-2) >> rushlight.arange(_BITS - 1, -1, -1).unsqueeze(-1)
        product = matrix.unsqueeze(-1) * (digits & 1).unsqueeze(-3)
        self.sobolstate = ((product.sum(-2) & 1) * powers.flip(0).unsqueeze(-1)).sum(-2)

    def _points(self, first: int, n: int) -> Tensor:
        """The integers of the points ``first`` to ``first + n - 1``, counted from the next one."""
        index = rushlight.arange(self.num_generated + first, self.num_generated + first + n)
        now = max(self.num_generated - 1, 0)
        changed = (index ^ index >> 1) ^ (now ^ now >> 1)  # Gray codes: a point differs by one bit
        points = self.quasi.expand(n, -1)
        for bit in range((self.num_generated + first + n).bit_length()):
            on = -(changed >> bit & 1).unsqueeze(-1)
            points = points ^ (on & self.sobolstate[:, bit])
        return points

    def draw(
        self, n: int = 1, out: Tensor | None = None, dtype: rushlight.dtype | None = None
    ) -> Tensor:
        """The next ``n`` points, as a tensor of ``n`` rows."""
        dtype = rushlight.get_default_dtype() if dtype is None else dtype
        points = self._points(0, n)
        if n:
            self.quasi = points[-1].clone()
        self.num_generated += n
        result = points.to(dtype) * 2.0**-_BITS
        return result if out is None else _into(out, result.to(out.dtype), "draw")

    def draw_base2(
        self, m: int, out: Tensor | None = None, dtype: rushlight.dtype | None = None
    ) -> Tensor:
        """The next ``2**m`` points; with those drawn before they must be a power of 2."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "SobolEngine.draw_base2: The balance properties of Sobol' points require n to be a "
                f"power of 2: {self.num_generated} points have been drawn, with 2**{m} there would "
                f"be {total}. Use draw({n}) instead, or reset() before"
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Begins again at the first point."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Passes over the next ``n`` points."""
        if n:
            self.quasi = self._points(n - 1, 1)[0].clone()
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        shown = [f"dimension={self.dimension}"]
        if self.scramble:
            shown.append("scramble=True")
        if self.seed is not None:
            shown.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(shown)})"
