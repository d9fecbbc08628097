"""`rushlight launch`, with real processes."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from processes import environment, needs_mpi
from rushlight.distributed.run import parse_args

PROGRAM = """
import os, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, restart = dist.get_rank(), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
t = torch.ones(1)
dist.all_reduce(t)
line = f"rank {rank} of {int(t.item())} local {dist.get_node_local_rank(0)} {sys.argv[1:]}\\n"
sys.stdout.write(line)  # in one piece: mpiexec passes pieces on as they come
if sys.argv[1:] == ["raise"] and rank == 1:
    raise ValueError("bad data")
if sys.argv[1:] == ["once"] and rank == 0 and restart == 0:
    os.kill(os.getpid(), 9)
if sys.argv[1:] == ["sleep"]:
    print("sleeps", flush=True)
    time.sleep(60)
dist.barrier()
"""


TRAINING = """
import os, signal, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main(folder, *faults):
    dist.init_process_group("gloo")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    fault = faults[attempt].split(":") if attempt < len(faults) else ["", "-1", "-1"]
    where = fault[0] if rank == int(fault[1]) else ""

    def dies(here, step):
        if where == here and step == int(fault[2]):
            os.kill(os.getpid(), signal.SIGKILL)

    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2).double()
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    first = 0
    if os.path.exists(folder):
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "step": 0}
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        first = state["step"]
    sys.stdout.write(f"from {first}\\n")
    for step in range(first, 6):
        torch.manual_seed(10 * step + rank)
        x = torch.randn(4, 3, dtype=torch.float64)
        dies("forward", step)
        y = model(x)
        y.register_hook(lambda g: dies("backward", step))
        y.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "step": step + 1}
        if where == "save" and step == int(fault[2]):
            state["bomb"] = Bomb()
        dcp.save(state, checkpoint_id=folder)
    sys.stdout.write(f"weights {net.weight.flatten().tolist()}\\n")
    dist.destroy_process_group()


class Bomb:
    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGKILL)


main(*sys.argv[1:])
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return str(path)


def clean_environment():
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    env = {k: v for k, v in environment(0, 1, 0).items() if k not in names}
    return {**env, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def command(*arguments, module="rushlight.cli"):
    words = ["launch"] if module == "rushlight.cli" else []
    return [sys.executable, "-m", module, *words, *map(str, arguments)]


def launch(*arguments, module="rushlight.cli", timeout=60):
    return subprocess.run(
        command(*arguments, module=module),
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def test_the_options_of_torchrun():
    line = "--nnodes=1:2 --nproc_per_node=3 --rdzv_backend=c10d --rdzv-endpoint host:1 -m pkg a -b"
    parsed = parse_args(line.split())
    assert (parsed.nnodes, parsed.nproc_per_node, parsed.rdzv_endpoint) == ("1:2", "3", "host:1")
    assert parsed.module
    assert parsed.training_script_args == ["a", "-b"]


def test_the_command_of_each_rank_has_its_number():
    text = (
        "import os; print(os.environ['RANK'], os.environ['LOCAL_RANK'], os.environ['WORLD_SIZE'])"
    )
    done = launch("--nproc-per-node", 2, "--no-python", sys.executable, "-c", text)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[rank0]: 0 0 2", "[rank1]: 1 1 2"]


def test_an_exception_that_is_recorded_is_in_the_file(tmp_path, monkeypatch):
    from rushlight.distributed.elastic.multiprocessing.errors import record

    @record
    def main(code):
        if code is None:
            raise ValueError("bad data")
        raise SystemExit(code)

    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    assert main(0) is None
    with pytest.raises(SystemExit):
        main(3)
    assert not (tmp_path / "error.json").exists()
    with pytest.raises(ValueError, match="bad data"):
        main(None)
    told = json.loads((tmp_path / "error.json").read_text())["message"]
    assert told["message"] == "ValueError: bad data"
    assert "in main" in told["extraInfo"]["py_callstack"]


def test_logs_go_to_files(tmp_path):
    options = ["--nproc-per-node", 2, "--log-dir", tmp_path, "-r", "3"]
    done = launch(*options, "--no-python", "sh", "-c", "echo $RANK; echo err >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "attempt_0" / "1" / "stdout.log").read_text() == "1\n"
    assert (tmp_path / "attempt_0" / "0" / "stderr.log").read_text() == "err\n"


def test_the_status_is_that_of_the_first_rank_that_failed():
    done = launch("--nproc-per-node", 2, "--no-python", "sh", "-c", "exit $((RANK * 7))")
    assert done.returncode == 7
    assert "rank 1 failed first: it ended with exit code 7" in done.stderr


@needs_mpi
class TestPrograms:
    def test_a_program_that_says_torch(self, script):
        done = launch("--standalone", "--nproc-per-node", 2, script, "--lr", "1")
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == [
            f"[rank{r}]: rank {r} of 2 local {r} ['--lr', '1']" for r in (0, 1)
        ]

    def test_the_first_traceback_is_what_the_user_sees_last(self, script):
        done = launch("--nproc-per-node", 2, script, "raise", module="rushlight.distributed.run")
        assert done.returncode == 1
        report = done.stderr.split("rushlight launch: ")[-1].splitlines()
        assert report[0] == "rank 1 failed first: it ended with exit code 1"
        assert report[1] == "Traceback (most recent call last):"
        assert report[-1] == "ValueError: bad data"

    def test_it_starts_again_after_a_fault(self, script):
        done = launch("--nproc-per-node", 2, "--max-restarts", 1, script, "once")
        assert done.returncode == 0, done.stderr
        assert "restart 1: rank 0 was killed by SIGKILL" in done.stderr
        assert done.stdout.count("of 2") >= 2

    def test_a_restart_goes_on_from_the_last_whole_checkpoint(self, tmp_path):
        """Killed in a forward, in a backward and in a save, it gets where it gets undisturbed."""
        path = tmp_path / "train.py"
        path.write_text(TRAINING)

        def trained(name, *faults):
            options = ["--nproc-per-node", 2, "--max-restarts", len(faults)]
            done = launch(*options, path, tmp_path / name, *faults, timeout=120)
            assert done.returncode == 0, done.stderr
            lines = [line.split("]: ", 1)[1] for line in done.stdout.splitlines()]
            begun = [int(line.split()[1]) for line in lines if line.startswith("from")]
            return [line for line in lines if line.startswith("weights")], begun, done.stderr

        expected, begun, _ = trained("undisturbed")
        assert begun == [0, 0]
        assert expected[0] == expected[1]
        found, begun, errors = trained("killed", "backward:1:2", "forward:0:3", "save:1:4")
        assert found == expected
        assert begun == [0, 0, 2, 2, 3, 3, 4, 4]
        assert errors.count("was killed by SIGKILL") == 3

    def test_the_older_launcher_gives_the_local_rank(self, tmp_path):
        path = tmp_path / "train.py"
        path.write_text("import sys; sys.stdout.write(f'{sys.argv[1:]}\\n')")
        done = launch("--nproc-per-node", 2, path, "-x", module="rushlight.distributed.launch")
        assert done.returncode == 0, done.stderr
        words = sorted(line.split(": ", 1)[1] for line in done.stdout.splitlines())
        assert words == [f"['--local-rank={r}', '-x']" for r in (0, 1)]

    @pytest.mark.parametrize("taken", [0, 2], ids=["", "the port is free after a while"])
    def test_two_machines(self, script, taken):
        """Two launchers meet; here they are on one machine."""
        somebody = socket.socket()
        somebody.bind(("127.0.0.1", 0))
        common = ["--nnodes", 2, "--rdzv-backend", "c10d", "--rdzv-endpoint"]
        common += [f"127.0.0.1:{somebody.getsockname()[1]}", script]
        threading.Timer(taken, somebody.close).start()
        nodes = [
            subprocess.Popen(
                command(*common), env=clean_environment(), stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        outputs = [node.communicate(timeout=60)[0] for node in nodes]
        assert [node.returncode for node in nodes] == [0, 0]
        assert sorted("".join(outputs).splitlines()) == [
            f"[rank{r}]: rank {r} of 2 local 0 []" for r in (0, 1)
        ]

    def test_slurm_starts_the_program(self, script):
        """As ``srun -n 3 python train.py`` does; a launcher in a job of one task starts others."""
        job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NODELIST": "localhost"}
        words = [sys.executable, "-m", "rushlight.cli", "run", script]
        tasks = [
            subprocess.Popen(
                words,
                env={
                    **clean_environment(), **job, "SLURM_NTASKS": "3",
                    "SLURM_PROCID": str(i), "SLURM_LOCALID": str(i), "SLURM_NODEID": "0",
                },
                stdout=subprocess.PIPE,
                text=True,
            )
            for i in range(3)
        ]  # fmt: skip
        outputs = [task.communicate(timeout=60)[0] for task in tasks]
        assert [task.returncode for task in tasks] == [0, 0, 0]
        assert [out.split(" local")[0] for out in outputs] == [f"rank {i} of 3" for i in range(3)]
        alone = {"SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_NODEID": "0"}
        done = subprocess.run(
            command("--nproc-per-node", 2, script),
            env={**clean_environment(), **job, **alone},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("of 2") == 2

    def test_an_interrupt_ends_all(self, script):
        with subprocess.Popen(
            command("--nproc-per-node", 2, script, "sleep"),
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            while "sleeps" not in process.stdout.readline():
                pass
            since = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 130
            assert "rushlight launch: interrupted" in errors
            assert time.monotonic() - since < 15

    @pytest.mark.skipif(
        shutil.which("mpiexec", path=clean_environment()["PATH"]) is None, reason="no mpiexec"
    )
    def test_mpiexec_starts_the_program(self, script):
        env = clean_environment()
        words = [shutil.which("mpiexec", path=env["PATH"]), "-n", "2"]
        version = subprocess.run([words[0], "--version"], capture_output=True, text=True).stdout
        if "Open MPI" in version or "open-mpi" in version:
            words += ["--oversubscribe", "--allow-run-as-root"]
        done = subprocess.run(
            [*words, sys.executable, "-m", "rushlight.cli", "run", script],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert sorted(line.split(" local")[0] for line in done.stdout.splitlines()) == [
            "rank 0 of 2",
            "rank 1 of 2",
        ]
