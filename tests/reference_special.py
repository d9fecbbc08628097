"""Special functions by their integrals and series, for float64 and arguments of a few units.

The trapezoidal rule is exact to rounding for periodic integrands and for those that fall off doubly
exponentially.
"""

import math

import numpy as np

ANGLES = (np.arange(400) + 0.5) * math.pi / 400  # of a half period
STEPS = np.arange(-700, 701) * 0.01


def bessel_j(n, x):
    return np.mean(np.cos(n * ANGLES - x * np.sin(ANGLES)))


def bessel_y(n, x, count=4000):
    """The integral over the half period is not periodic: by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    angles = (nodes + 1) * math.pi / 2
    inner = np.sum(weights * np.sin(x * np.sin(angles) - n * angles)) / 2
    t = np.concatenate([(nodes + 1) / 4 + k / 2 for k in range(20)])
    sign = (-1) ** n
    tail = (np.exp(n * t) + sign * np.exp(-n * t)) * np.exp(-x * np.sinh(t))
    return inner - np.sum(np.tile(weights, 20) * tail) / 4 / math.pi


def modified_i(n, x):
    return np.mean(np.exp(x * np.cos(ANGLES)) * np.cos(n * ANGLES))


def modified_k(n, x):
    return 0.005 * np.sum(np.exp(-x * np.cosh(STEPS)) * np.cosh(n * STEPS))


def airy(x):
    """The power series, from the values at 0."""
    value, slope = 3 ** (-2 / 3) / math.gamma(2 / 3), -(3 ** (-1 / 3)) / math.gamma(1 / 3)
    a = [value, slope, 0.0]
    for n in range(1, 60):
        a.append(a[n - 1] / ((n + 1) * (n + 2)))
    return math.fsum(c * x**k for k, c in enumerate(a))


def zeta(s, q, count=30):
    """The formula of Euler and Maclaurin behind the first terms."""
    total = math.fsum((q + k) ** -s for k in range(count))
    x = q + count
    total += x ** (1 - s) / (s - 1) + x**-s / 2 + s * x ** (-s - 1) / 12
    return total - s * (s + 1) * (s + 2) * x ** (-s - 3) / 720


def igamma(a, x):
    term = total = x**a * math.exp(-x) / math.gamma(a + 1)
    k = a
    while term > 1e-20 * total:
        k += 1
        term *= x / k
        total += term
    return total


def ndtri(p):
    """The zero of ndtr(x) - p, by bisection."""
    low, high = -10.0, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(-middle / math.sqrt(2)) / 2 < p else (low, middle)
    return low


def polynomial(first, step):
    """By the recurrence p(k) = step(k, x, p(k - 1), p(k - 2))."""

    def value(x, n):
        before, p = 0.0, 1.0
        for k in range(1, int(n) + 1):
            before, p = p, first(x) if k == 1 else step(k, x, p, before)
        return p if n >= 0 else 0.0

    return np.vectorize(value, otypes=[np.float64])


def chebyshev(first):
    return polynomial(first, lambda k, x, p, before: 2 * x * p - before)


def shifted(f):
    return lambda x, n: f(2 * x - 1, n)


def each(f):
    return np.vectorize(f, otypes=[np.float64])


KINDS = {
    "t": chebyshev(lambda x: x),
    "u": chebyshev(lambda x: 2 * x),
    "v": chebyshev(lambda x: 2 * x - 1),
    "w": chebyshev(lambda x: 2 * x + 1),
}
REFERENCES = {
    "bessel_j0": each(lambda x: bessel_j(0, x)),
    "bessel_j1": each(lambda x: bessel_j(1, x)),
    "bessel_y0": each(lambda x: bessel_y(0, x)),
    "bessel_y1": each(lambda x: bessel_y(1, x)),
    "i0": each(lambda x: modified_i(0, x)),
    "i1": each(lambda x: modified_i(1, x)),
    "i0e": each(lambda x: modified_i(0, x) * math.exp(-abs(x))),
    "i1e": each(lambda x: modified_i(1, x) * math.exp(-abs(x))),
    "modified_bessel_k0": each(lambda x: modified_k(0, x)),
    "modified_bessel_k1": each(lambda x: modified_k(1, x)),
    "scaled_modified_bessel_k0": each(lambda x: modified_k(0, x) * math.exp(x)),
    "scaled_modified_bessel_k1": each(lambda x: modified_k(1, x) * math.exp(x)),
    "spherical_bessel_j0": lambda x: np.sin(x) / x,
    "airy_ai": each(airy),
    "erfcx": each(lambda x: math.exp(x * x) * math.erfc(x)),
    "ndtr": each(lambda x: math.erfc(-x / math.sqrt(2)) / 2),
    "log_ndtr": each(lambda x: math.log(math.erfc(-x / math.sqrt(2)) / 2)),
    "ndtri": each(ndtri),
    "entr": lambda x: -x * np.log(x),
    "xlog1py": lambda x, y: x * np.log1p(y),
    "zeta": each(zeta),
    "igamma": each(igamma),
    "igammac": each(lambda a, x: 1 - igamma(a, x)),
    "hermite_polynomial_h": polynomial(
        lambda x: 2 * x, lambda k, x, p, before: 2 * x * p - 2 * (k - 1) * before
    ),
    "hermite_polynomial_he": polynomial(
        lambda x: x, lambda k, x, p, before: x * p - (k - 1) * before
    ),
    "laguerre_polynomial_l": polynomial(
        lambda x: 1 - x, lambda k, x, p, before: ((2 * k - 1 - x) * p - (k - 1) * before) / k
    ),
    "legendre_polynomial_p": polynomial(
        lambda x: x, lambda k, x, p, before: ((2 * k - 1) * x * p - (k - 1) * before) / k
    ),
    **{f"chebyshev_polynomial_{kind}": f for kind, f in KINDS.items()},
    **{f"shifted_chebyshev_polynomial_{kind}": shifted(f) for kind, f in KINDS.items()},
}
