"""Special functions of 10^5 numbers over the range that programs use, float32 and float64."""

from collections.abc import Callable, Iterable
from typing import Any

from harness import Bench, Case, Row, main

COUNT = 100_000
LINE, POSITIVE, UNIT = (-6.0, 6.0), (0.1, 20.0), (0.001, 0.999)
RANGES = {
    "airy_ai": LINE, "bessel_j0": LINE, "bessel_j1": LINE, "bessel_y0": POSITIVE,
    "bessel_y1": POSITIVE, "digamma": POSITIVE, "entr": POSITIVE, "erf": LINE, "erfc": LINE,
    "erfcx": LINE, "erfinv": UNIT, "expm1": LINE, "gammaln": POSITIVE, "i0": LINE, "i0e": LINE,
    "i1": LINE, "i1e": LINE, "log_ndtr": LINE, "logit": UNIT, "modified_bessel_i0": LINE,
    "modified_bessel_k0": POSITIVE, "ndtr": LINE, "ndtri": UNIT,
    "scaled_modified_bessel_k1": POSITIVE, "sinc": LINE, "spherical_bessel_j0": LINE,
}  # fmt: skip
PAIRS = {"gammainc": POSITIVE, "gammaincc": POSITIVE, "xlog1py": POSITIVE, "zeta": (1.1, 20.0)}


def numbers(torch: Any, limits: tuple[float, float], dtype: str, seed: int) -> Any:
    torch.manual_seed(seed)
    low, high = limits
    return low + (high - low) * torch.rand(COUNT, dtype=getattr(torch, dtype))


def operands(
    name: str, limits: tuple[float, float], dtype: str, count: int
) -> Callable[[Any], dict[str, Any]]:
    def names(torch: Any) -> dict[str, Any]:
        arguments = [numbers(torch, limits, dtype, seed) for seed in range(count)]
        function = getattr(torch.special, name)
        return {"work": lambda: function(*arguments)}

    return names


CASES = [
    Case(f"{name}, {dtype}", operands(name, limits, dtype, count), bar=1.0)
    for count, ranges in ((1, RANGES), (2, PAIRS))
    for name, limits in ranges.items()
    for dtype in ("float32", "float64")
]


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(CASES)


if __name__ == "__main__":
    main(rows, "special functions of 10^5 numbers")
