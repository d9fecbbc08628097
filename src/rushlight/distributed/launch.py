"""The older launcher, which gives programs ``--local-rank``: `python -m torch.distributed.launch`.

With ``--use-env`` it is the same as `rushlight launch`.
"""

from __future__ import annotations

from rushlight.distributed import run as _run

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence


def parse_args(args: Sequence[str] | None) -> Namespace:
    """The options in a command line: those of ``run``, and ``--use-env``.

    >>> from rushlight.distributed.launch import parse_args
    >>> parse_args(["--use-env", "train.py"]).use_env
    True
    """
    parser = _run.get_args_parser()
    parser.add_argument("--use-env", "--use_env", action="store_true", help="no --local-rank")
    return parser.parse_args(args)


def launch(args: Namespace) -> None:
    """Runs the program.

    >>> from rushlight.distributed.launch import launch, parse_args
    >>> launch(parse_args(["--no-python", "--use-env", "true"]))
    """
    if args.no_python and not args.use_env:
        raise ValueError(
            "When using the '--no-python' flag, you must also set the '--use-env' flag."
        )
    args.gives_local_rank = not args.use_env
    _run.run(args)


def main(args: Sequence[str] | None = None) -> None:
    """The command line.

    >>> from rushlight.distributed.launch import main
    >>> main(["--no-python", "--use-env", "true"])
    """
    launch(parse_args(args))


if __name__ == "__main__":
    main()
