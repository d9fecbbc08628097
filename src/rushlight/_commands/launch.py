"""run a PyTorch program in several processes

As `torchrun` does, with its options: every process gets its rank in the environment, and
`torch.distributed.init_process_group()` joins them. Output is prefixed by the rank; when one fails,
the others are ended, and its traceback is printed last.
"""

from __future__ import annotations

import argparse

PROGRAM = True
EXAMPLES = (
    ("rushlight launch --nproc-per-node 4 train.py --epochs 3", "four processes here"),
    ("rushlight launch --nproc-per-node 4 --max-restarts 3 train.py", "start again after a fault"),
    ("rushlight launch --nnodes 2 --node-rank 0 --master-addr host0 train.py", "of two machines"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from rushlight.distributed.run import add_options

    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from rushlight.distributed.run import launch

    program = arguments.program
    arguments.module = program[0] == "-m"
    script = program[1:] if arguments.module else program
    arguments.training_script, arguments.training_script_args = script[0], script[1:]
    return launch(arguments)
