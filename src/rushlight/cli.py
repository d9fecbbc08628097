"""The command line: `rushlight run`, `rushlight demo`, `rushlight info`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import Any

# Instruction sets that the kernels are compiled for or that decide the speed of the BLAS.
_FEATURES = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512_bf16", "amx_bf16")


def _demo(arguments: argparse.Namespace) -> int:
    from rushlight import _demo

    return _demo.run(steps=arguments.steps, seconds=arguments.seconds, seed=arguments.seed)


def _info(arguments: argparse.Namespace) -> int:
    for name, value in facts():
        print(f"{name:<10} {value}")
    return 0


def facts() -> Iterator[tuple[str, str]]:
    """What this installation is and what it runs on: names and texts.

    >>> from rushlight.cli import facts
    >>> [name for name, _ in facts()][:3]
    ['rushlight', 'python', 'system']
    """
    import rushlight

    yield "rushlight", f"{rushlight.__version__}  ({os.path.dirname(rushlight.__file__ or '')})"
    yield "python", f"{platform.python_version()} {platform.python_implementation()}"
    yield "system", platform.platform()
    model, features = _cpu()
    yield "cpu", f"{model}, {os.cpu_count()} logical cores"
    if features:
        yield "features", " ".join(features)
    yield "threads", str(rushlight.get_num_threads())
    yield "blas", _blas()
    rows = list(_memory(getattr(rushlight, "memory_stats", dict)()))
    yield from zip(["memory"] + [""] * len(rows), rows, strict=False)


def _cpu() -> tuple[str, list[str]]:
    """The processor's name and those of its features that matter here."""
    from rushlight.backends.cpu import read_cpuinfo

    model, flags = read_cpuinfo()
    known = [name for name in _FEATURES if name in flags]
    return model or platform.processor() or platform.machine(), known


def _blas() -> str:
    from importlib import metadata

    try:
        return f"OpenBLAS, scipy-openblas32 {metadata.version('scipy-openblas32')}"
    except metadata.PackageNotFoundError:
        return "the scipy-openblas32 package is not installed"


def _memory(stats: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in stats.items():
        label = f"{path}{name}"
        if isinstance(value, dict):
            yield from _memory(value, label + ".")
        elif "bytes" in label and isinstance(value, int):
            yield f"{label} = {value:,} ({value / 2**20:.1f} MiB)"
        else:
            yield f"{label} = {value:,}" if isinstance(value, int) else f"{label} = {value}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rushlight", description="A PyTorch-compatible autograd engine."
    )
    from rushlight import __version__

    version = f"rushlight {__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)

    commands.add_parser("run", help="run a PyTorch program: torch is rushlight there")

    demo = commands.add_parser("demo", help="train a small GPT on Python's own source")
    demo.add_argument("--steps", type=_positive(int), default=1500, help="training steps (1500)")
    demo.add_argument(
        "--seconds", type=_positive(float), default=35.0, help="stop training after this time (35)"
    )
    demo.add_argument("--seed", type=int, default=0, help="of the random numbers (0)")
    demo.set_defaults(run=_demo)

    info = commands.add_parser("info", help="what this installation is and what it runs on")
    info.set_defaults(run=_info)
    return parser


def _positive(kind: type[int] | type[float]) -> Any:
    def parse(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"expected a positive number, got {text}")
        return value

    parse.__name__ = kind.__name__
    return parse


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status.

    >>> from rushlight.cli import main
    >>> main(["info"])
    rushlight  ...
    0
    """
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["run"]:  # what follows is the program's: argparse must not read it
        from rushlight import _run

        return _run.main(given[1:])
    arguments = _parser().parse_args(given)
    try:
        status = int(arguments.run(arguments))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader left; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
