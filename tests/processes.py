"""Real processes for tests: N ranks of a function or a script, with a limit of time.

    run(worker, 2, 3.0)          # worker(rank, size, 3.0) in each of two processes, in a group
    run_script(path, 2, "--flag")

A function lives at the top of a test module; it is imported by the ranks. What it returns comes
back in a list. When a rank fails, the others are ended and the first one's traceback is shown.
"""

import contextlib
import importlib.util
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TIMEOUT = 90.0
needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed: pip '.[mpi]'"
)


class Failed(AssertionError):
    """A rank failed; ``ranks`` has the exit status and the output of each."""

    def __init__(self, text, ranks):
        super().__init__(text)
        self.ranks = ranks


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def environment(rank, size, port):
    """What torchrun gives to a rank."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    names.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI", "SLURM"))}
    source = str(HERE.parent / "src")
    kept = [p for p in sys.path if p] if source in sys.path else []
    path = os.pathsep.join([str(HERE), *kept, os.environ.get("PYTHONPATH", "")])
    threads = {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"}
    return {**clean, **{k: str(v) for k, v in names.items()}, **threads}


class Ranks:
    """Processes that run; their output goes to files."""

    def __init__(self, command, size, env=None):
        self.size = size
        self.folder = tempfile.TemporaryDirectory()
        port = free_port()
        self.processes = []
        for rank in range(size):
            with open(self._file(rank), "wb") as out:
                self.processes.append(
                    subprocess.Popen(
                        command,
                        env={**environment(rank, size, port), **(env or {})},
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )

    def _file(self, rank):
        return Path(self.folder.name) / f"out.{rank}"

    def output(self, rank):
        return self._file(rank).read_text(errors="replace")

    def wait(self, timeout=TIMEOUT, first_failure=True, patience=10.0):
        """The exit statuses. After a failure, the others have ``patience`` seconds to end."""
        end = time.monotonic() + timeout
        failed_first = None
        while any(p.poll() is None for p in self.processes):
            bad = [r for r, p in enumerate(self.processes) if p.poll() not in (None, 0)]
            if bad and failed_first is None:
                failed_first = bad[0]
                end = min(end, time.monotonic() + patience)
            if time.monotonic() > end:
                break
            time.sleep(0.01)
        late = [r for r, p in enumerate(self.processes) if p.poll() is None]
        self.end()
        codes = [p.returncode for p in self.processes]
        if failed_first is None:
            failed_first = next((r for r, c in enumerate(codes) if c != 0), None)
        self.first, self.late = failed_first, late
        return codes

    def signal(self, rank, number=signal.SIGKILL):
        os.kill(self.processes[rank].pid, number)

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def check(self, timeout=TIMEOUT):
        """Waits for all; shows the first rank that failed."""
        codes = self.wait(timeout)
        outputs = [self.output(r) for r in range(self.size)]
        if self.first is None:
            return outputs
        rank = self.first
        what = "did not end in time" if rank in self.late else f"ended with {codes[rank]}"
        raise Failed(
            f"rank {rank} of {self.size} {what} (all: {codes}, late: {self.late})\n"
            + "\n".join(f"--- rank {r}\n{outputs[r]}" for r in [rank, *self.late]),
            list(zip(codes, outputs, strict=True)),
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.end()
        self.folder.cleanup()


_RUNNER = "import processes, sys; processes._run_rank(*sys.argv[1:])"


def start(function, size, *arguments, group=True, env=None, init=None):
    """Starts ``function(rank, size, *arguments)`` in ``size`` processes."""
    path = Path(sys.modules[function.__module__].__file__).resolve()
    job = {"path": str(path), "name": function.__name__, "arguments": arguments}
    job.update(group=group, init=init)
    folder = tempfile.mkdtemp()
    (Path(folder) / "job").write_bytes(pickle.dumps(job))
    ranks = Ranks([sys.executable, "-c", _RUNNER, folder], size, env)
    ranks.results = Path(folder)
    return ranks


def run(function, size, *arguments, timeout=TIMEOUT, group=True, env=None, init=None):
    """The results of ``function(rank, size, *arguments)`` in ``size`` processes.

    They are in a group, unless ``group`` is False; ``init`` has other arguments of
    ``init_process_group``.
    """
    import shutil

    with start(function, size, *arguments, group=group, env=env, init=init) as ranks:
        try:
            ranks.check(timeout)
            return [pickle.loads((ranks.results / f"result.{r}").read_bytes()) for r in range(size)]
        finally:
            shutil.rmtree(ranks.results, ignore_errors=True)


def run_script(path, size, *arguments, timeout=TIMEOUT, env=None):
    """The outputs of ``size`` processes that run a script under the variables of torchrun."""
    with Ranks([sys.executable, str(path), *map(str, arguments)], size, env) as ranks:
        return ranks.check(timeout)


def _run_rank(folder):
    job = pickle.loads((Path(folder) / "job").read_bytes())
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    spec = importlib.util.spec_from_file_location(Path(job["path"]).stem, job["path"])
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if job["group"]:
        import rushlight.distributed as dist

        dist.init_process_group(**(job["init"] or {"backend": "gloo"}))
    result = getattr(module, job["name"])(rank, size, *job["arguments"])
    (Path(folder) / f"result.{rank}").write_bytes(pickle.dumps(result))
    if job["group"] and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
