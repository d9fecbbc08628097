"""Starts a program in several processes, as ``torchrun`` does: `rushlight launch train.py`.

The same as `python -m rushlight.distributed.run`. On one machine this process starts the ranks; on
several, one such command runs on each. With Open MPI, whose processes only its own launcher can
introduce to each other, `mpiexec` starts them.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import signal
import socket
import sys
import time
from datetime import timedelta as _timedelta

from rushlight.distributed import _agent, _world
from rushlight.distributed._errors import DistNetworkError
from rushlight.distributed._stores import TCPStore

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

_MPI_VARIABLES = ("PMI_", "PMIX_", "OMPI_", "HYDRA_", "MPI_LOCAL")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``torchrun`` to a parser.

    >>> import argparse
    >>> from rushlight.distributed.run import add_options
    >>> parser = argparse.ArgumentParser()
    >>> add_options(parser)
    >>> parser.parse_args(["--max_restarts=3"]).max_restarts
    3
    """
    add = parser.add_argument

    def option(name: str, **settings: Any) -> None:
        add(f"--{name}", f"--{name.replace('-', '_')}", **settings)

    add("--nnodes", type=_machines, default="1", help="machines: a number, or least:most")
    option(
        "nproc-per-node", type=_processes, default="1",
        help="processes here: a number, auto, cpu or gpu",
    )  # fmt: skip
    option("node-rank", type=int, default=None, help="the number of this machine")
    option("master-addr", default=None, help="the name of machine 0")
    option("master-port", type=int, default=None, help="a free port of machine 0")
    option("local-addr", default=None, help="the name of this machine, for the others")
    add("--standalone", action="store_true", help="one machine, any free port")
    option("max-restarts", type=int, default=0, help="how often to start again after a failure")
    option("monitor-interval", type=float, default=0.05, help="seconds between looks at the ranks")
    option("rdzv-backend", default="static", help="static, c10d: both meet at the endpoint")
    option("rdzv-endpoint", default="", help="host:port of the machine that others meet at")
    option("rdzv-id", default="none", help="a name of the run")
    option("rdzv-conf", default="", help="key=value,...: join_timeout, last_call_timeout")
    option("start-method", default="spawn", help="accepted: ranks are fresh processes")
    add("--role", default="default", help="a name of the processes")
    option("no-python", action="store_true", help="the program is a command")
    option("run-path", action="store_true", help="accepted: programs run so")
    option("log-dir", default=None, metavar="FOLDER", help="a folder for the output of ranks")
    add("-r", "--redirects", default="0", help="to files: 0, 1 stdout, 2 stderr, 3 both; 0:3,1:0")
    add("-t", "--tee", default="0", help="to files and here; as --redirects")
    option("local-ranks-filter", default="", help="print only these ranks: 0,1")
    add("--launcher", choices=("auto", "local", "mpiexec"), default="auto", help="what starts")


def _machines(text: str) -> str:
    if not all(part.isdecimal() and int(part) for part in text.split(":", 1)):
        raise argparse.ArgumentTypeError(f"expected a number, or least:most, got {text}")
    return text


def _processes(text: str) -> str:
    if text not in ("auto", "cpu", "gpu") and not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a number, auto, cpu or gpu, got {text}")
    return text


def get_args_parser() -> argparse.ArgumentParser:
    """The command line, which is that of ``torchrun``.

    >>> from rushlight.distributed.run import get_args_parser
    >>> get_args_parser().parse_args(["--nproc-per-node", "2", "train.py"]).nproc_per_node
    '2'
    """
    parser = argparse.ArgumentParser(
        prog="rushlight.distributed.run", description="Runs a PyTorch program in several processes."
    )
    add_options(parser)
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """The options in a command line.

    >>> from rushlight.distributed.run import parse_args
    >>> parse_args(["--standalone", "train.py", "--lr", "1"]).training_script_args
    ['--lr', '1']
    """
    return get_args_parser().parse_args(args)


def _count(text: str) -> int:
    """The number of processes on this machine."""
    if text in ("auto", "gpu"):
        import rushlight as torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if text == "gpu" and not count:
            raise ValueError("--nproc-per-node gpu: Cuda is not available.")
        return count or os.cpu_count() or 1
    if text == "cpu":
        return os.cpu_count() or 1
    return int(text)


def _command(arguments: argparse.Namespace) -> list[str]:
    """What each rank runs: the program, with rushlight under the name torch."""
    program = [arguments.training_script, *arguments.training_script_args]
    if arguments.no_python:
        return program
    module = ["-m"] if arguments.module else []
    return [sys.executable, "-u", "-m", "rushlight.cli", "run", *module, *program]


def run(arguments: argparse.Namespace) -> None:
    """Runs the program; raises SystemExit with its status if it failed.

    >>> from rushlight.distributed.run import parse_args, run
    >>> run(parse_args(["--no-python", "true"]))
    """
    status = launch(arguments)
    if status:
        raise SystemExit(status)


def launch(arguments: argparse.Namespace) -> int:
    """Runs the program that parsed options name; the exit status.

    >>> from rushlight.distributed.run import launch, parse_args
    >>> launch(parse_args(["--no-python", "true"]))
    0
    """
    try:
        if arguments.launcher == "mpiexec" or (
            arguments.launcher == "auto" and _needs_mpiexec(arguments)
        ):
            return _through_mpiexec(arguments)
        return _Node(arguments).run()
    except (ValueError, DistNetworkError) as error:
        print(f"rushlight launch: {error}", file=sys.stderr)
        return 2


def _needs_mpiexec(arguments: argparse.Namespace) -> bool:
    """Whether only its own launcher can join processes of the MPI that is installed."""
    one = arguments.nnodes in ("1", "1:1") and arguments.nproc_per_node == "1"
    if one or not _world.has_mpi() or shutil.which("mpiexec") is None:
        return False
    return bool(_world.mpi().get_vendor()[0] == "Open MPI")


def _through_mpiexec(arguments: argparse.Namespace) -> int:
    """Starts the ranks by MPI's launcher, which ends all when one fails."""
    import subprocess

    if getattr(arguments, "gives_local_rank", False):
        raise ValueError("mpiexec gives no --local-rank: read LOCAL_RANK, and use --use-env")
    mpiexec = shutil.which("mpiexec")
    if mpiexec is None:
        raise ValueError("--launcher mpiexec: there is no mpiexec: pip install mpich")
    count = int(arguments.nnodes.split(":")[0]) * _count(arguments.nproc_per_node)
    vendor = _world.mpi().get_vendor()[0]
    options = ["-n", str(count)]
    if vendor == "Open MPI":
        options += ["--oversubscribe", "--tag-output"]
        if os.geteuid() == 0:
            options.append("--allow-run-as-root")
    else:
        options.append("-prepend-rank")
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "TORCHELASTIC_RUN_ID": arguments.rdzv_id}
    env.setdefault("OMP_NUM_THREADS", "1")
    for attempt in range(arguments.max_restarts + 1):
        env["TORCHELASTIC_RESTART_COUNT"] = str(attempt)
        status = subprocess.call([mpiexec, *options, *_command(arguments)], env=env)
        if status == 0:
            return 0
    return status if status > 0 else 1


class _Node:
    """This machine's part of a run."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        least, _, most = arguments.nnodes.partition(":")
        self.least, self.most = int(least), int(most or least)
        self.local = _count(arguments.nproc_per_node)
        given = (part.split("=", 1) for part in arguments.rdzv_conf.split(",") if "=" in part)
        conf = {"timeout": "600", **dict(given)}
        self.join_timeout = float(conf.get("join_timeout", conf["timeout"]))
        self.last_call = float(conf.get("last_call_timeout", 30))
        self.logs = _agent.Logs(arguments.log_dir, arguments.redirects, arguments.tee)
        shown = arguments.local_ranks_filter
        self.shown = {int(r) for r in shown.split(",")} if shown else None
        if self.local < 1 or self.least < 1:
            raise ValueError(f"at least one process is needed: --nproc-per-node {self.local}")

    def run(self) -> int:
        """Starts, watches and restarts the ranks; the exit status."""
        self._meet()
        before = signal.signal(signal.SIGTERM, _terminated)
        try:
            return self._attempts()
        except KeyboardInterrupt:
            print("rushlight launch: interrupted", file=sys.stderr)
            return 130
        finally:
            signal.signal(signal.SIGTERM, before)

    def _attempts(self) -> int:
        last = self.arguments.max_restarts
        for attempt in range(last + 1):
            ranks = self._start(attempt)
            stopped = functools.partial(self._others_failed, attempt)
            try:
                failed = _agent.watch(ranks, stopped, self.arguments.monitor_interval)
                if failed is None and not stopped() and self._all_done(attempt):
                    return 0
                if failed is not None:
                    self.store.set(f"failed/{attempt}", str(failed.rank))
            finally:
                _agent.end(ranks)
            if attempt < last:
                why = self._why(failed)
                print(f"rushlight launch: restart {attempt + 1}: {why}", file=sys.stderr)
        return self._give_up(failed, last)

    def _give_up(self, failed: Any, attempt: int) -> int:
        if failed is None:
            print(f"rushlight launch: {self._why(failed)}", file=sys.stderr)
            self._goodbye()
            return 1
        print(_agent.report(failed, attempt), file=sys.stderr, end="")
        self._goodbye()
        code = failed.poll() or 1
        return code if code > 0 else 128 - code

    def _why(self, failed: Any) -> str:
        if failed is None:
            return "a rank of another machine failed"
        return f"rank {failed.rank} {_agent.how(failed.poll() or 0)}"

    def _meet(self) -> None:
        """Finds the other machines: the store, this machine's number, and how many there are."""
        arguments = self.arguments
        host, _, port = arguments.rdzv_endpoint.partition(":")
        host = host or arguments.master_addr or os.environ.get("MASTER_ADDR") or "127.0.0.1"
        number = int(port or arguments.master_port or os.environ.get("MASTER_PORT") or 29500)
        alone = self.most == 1
        if arguments.standalone or (alone and not port and arguments.master_port is None):
            host, number = "127.0.0.1", 0
        node = arguments.node_rank
        if node is None and "SLURM_NODEID" in os.environ and not alone:
            node = int(os.environ["SLURM_NODEID"])
        serves = alone or node == 0 or (node is None and _is_here(host))
        if not serves or node == 0 or alone:
            timeout = _timedelta(seconds=self.join_timeout)
            self.store = TCPStore(host, number, None, serves, timeout)
            self.holds_store = serves
        else:
            self._serve_or_find(host, number)
        self.host, self.port = host, self.store.port
        arrived = self.store.add("nodes", 1)
        self.node = node if node is not None else arrived - 1
        self.nodes = self._count_nodes(arrived)
        self.store.set(f"local/{self.node}", str(self.local))
        counts = [int(self.store.get(f"local/{n}")) for n in range(self.nodes)]
        self.first, self.world = sum(counts[: self.node]), sum(counts)

    def _serve_or_find(self, host: str, port: int) -> None:
        """Holds the store, or finds that of another launcher here.

        The port may be taken for a while by neither: both are tried in turn.
        """
        end = time.monotonic() + self.join_timeout
        while True:
            seconds = min(2.0, max(end - time.monotonic(), 0.0))
            for self.holds_store in (True, False):
                try:
                    limit = _timedelta(seconds=seconds)
                    self.store = TCPStore(host, port, None, self.holds_store, limit)
                    self.store.set_timeout(_timedelta(seconds=self.join_timeout))
                    return
                except DistNetworkError:
                    if not self.holds_store and time.monotonic() >= end:
                        raise

    def _count_nodes(self, arrived: int) -> int:
        """All machines, or those that came in time when a range is given."""
        if self.least == self.most:
            return self.most
        if arrived == 1:
            end = time.monotonic() + self.join_timeout
            while (n := self.store.add("nodes", 0)) < self.most and time.monotonic() < end:
                if n >= self.least:
                    end = min(end, time.monotonic() + self.last_call)
                time.sleep(0.05)
            if n < self.least:
                raise ValueError(f"--nnodes {self.arguments.nnodes}: only {n} machines came")
            self.store.set("count", str(min(n, self.most)))
        return int(self.store.get("count"))

    def _start(self, attempt: int) -> list[_agent.Rank]:
        ranks = []
        for local in range(self.local):
            command = _command(self._arguments_of(local))
            shown = self.shown is None or local in self.shown
            ranks.append(
                _agent.Rank(
                    command,
                    self._environment(local, attempt),
                    self.first + local,
                    self.world > 1,
                    self.logs.of(attempt, local, shown),
                )
            )
        return ranks

    def _arguments_of(self, local: int) -> argparse.Namespace:
        """What a rank is started with; the older launcher tells it its number."""
        if not getattr(self.arguments, "gives_local_rank", False):
            return self.arguments
        given = vars(self.arguments)
        words = [f"--local-rank={local}", *self.arguments.training_script_args]
        return argparse.Namespace(**{**given, "training_script_args": words})

    def _environment(self, local: int, attempt: int) -> dict[str, str]:
        """What torchrun puts into the environment of a rank."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_MPI_VARIABLES)}
        if self.local > 1:
            kept.setdefault("OMP_NUM_THREADS", "1")
        rank = self.first + local
        values = {
            "RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": self.world,
            "LOCAL_WORLD_SIZE": self.local, "GROUP_RANK": self.node, "GROUP_WORLD_SIZE": self.nodes,
            "ROLE_RANK": rank, "ROLE_WORLD_SIZE": self.world, "ROLE_NAME": self.arguments.role,
            "MASTER_ADDR": self.host, "MASTER_PORT": self.port,
            "TORCHELASTIC_RESTART_COUNT": attempt,
            "TORCHELASTIC_MAX_RESTARTS": self.arguments.max_restarts,
            "TORCHELASTIC_RUN_ID": self.arguments.rdzv_id, "TORCHELASTIC_USE_AGENT_STORE": "True",
            "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        return {**kept, **{name: str(value) for name, value in values.items()}}

    def _others_failed(self, attempt: int) -> bool:
        return self.nodes > 1 and self.store.check([f"failed/{attempt}"])

    def _all_done(self, attempt: int) -> bool:
        """Waits for the other machines; False if a rank of theirs fails."""
        if self.nodes == 1:
            return True
        self.store.add(f"done/{attempt}", 1)
        while self.store.add(f"done/{attempt}", 0) < self.nodes:
            if self._others_failed(attempt):
                return False
            time.sleep(self.arguments.monitor_interval)
        self._goodbye()
        return True

    def _goodbye(self) -> None:
        """The machine that holds the store goes last, but does not wait for ever."""
        if self.nodes == 1:
            return
        self.store.add("goodbye", 1)
        end = time.monotonic() + 10
        while self.holds_store and self.store.add("goodbye", 0) < self.nodes:
            if time.monotonic() > end:
                return
            time.sleep(0.02)


def _terminated(number: int, frame: Any) -> NoReturn:
    raise SystemExit(128 + number)


def _is_here(host: str) -> bool:
    """Whether a name is one of this machine."""
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()):
        return True
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
        return True
    except OSError:
        return False


def main(args: Sequence[str] | None = None) -> None:
    """The command line.

    >>> from rushlight.distributed.run import main
    >>> main(["--no-python", "true"])
    """
    run(parse_args(args))


if __name__ == "__main__":
    main()
