"""CUDA without a GPU: the driver layer and the kernels' texts on an emulated device.

A small libcuda, NVRTC, cuBLASLt and NCCL of ours (emulated/) executes on the host; the checks in
on_cuda/ run on it in a process of their own, as tools/cuda_check runs them on a real device.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import _C

TESTS = Path(__file__).parent
COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="the emulator compiles kernels by g++")


@pytest.fixture(scope="session")
def emulator(tmp_path_factory):
    """A folder with the libraries."""
    folder = tmp_path_factory.mktemp("emulated")
    library = folder / "libcuda.so.1"
    sources = sorted((TESTS / "emulated").glob("*.cpp"))
    command = [COMPILER, "-std=c++17", "-O1", "-fPIC", "-shared", "-o", library, *sources, "-ldl"]
    subprocess.run(command, check=True)
    for name in ("libnvrtc.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2"):
        (folder / name).symlink_to(library)
    return folder


def settings(emulator, **more):
    found = {"RUSHLIGHT_CUDA_PATH": str(emulator), "RUSHLIGHT_CACHE": str(emulator / "cache")}
    paths = [str(Path(torch.__file__).parent.parent), str(TESTS), os.environ.get("PYTHONPATH", "")]
    return os.environ | found | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | more


def run(emulator, program, **more):
    """What a program prints on the emulated device."""
    done = subprocess.run(
        [sys.executable, "-c", program], env=settings(emulator, **more), capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(emulator, file, *options, **more):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        [*command, TESTS / "on_cuda" / file], env=settings(emulator, **more), capture_output=True,
        text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]


@needs_compiler
class TestEmulated:
    def test_the_device(self, emulator):
        check(emulator, "check_device.py")

    @pytest.mark.parametrize("peers", ["", "EMULATED_CUDA_NO_PEERS"])
    def test_several_devices(self, emulator, peers):
        more = {peers: "1"} if peers else {}
        check(emulator, "check_devices.py", EMULATED_CUDA_DEVICES="2", **more)

    def test_devices_of_one(self, emulator):
        check(emulator, "check_devices.py")

    def test_one_of_several_devices(self, emulator):
        check(emulator, "check_device.py", EMULATED_CUDA_DEVICES="2")

    @pytest.mark.parametrize(
        ("file", "selected"),
        [
            ("check_graphs.py", "not nadam and not radam"),
            ("check_layers.py", "strided or shape0"),
            ("check_training.py", "gpt or adamw or mixed"),
        ],
    )
    def test_the_second_device(self, emulator, file, selected):
        options = ("-p", "on_cuda.second_device", "-k", selected)
        check(emulator, file, *options, EMULATED_CUDA_DEVICES="2")

    def test_copies_between_devices_are_ordered(self, emulator):
        program = """
import rushlight as torch
x = torch.ones(3, device="cuda:0")
torch.ones(3, device="cuda:1").copy_(x)
"""
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=300,
            env=settings(emulator, EMULATED_CUDA_DEVICES="2", EMULATED_CUDA_ORDER="1"),
        )  # fmt: skip
        lines = done.stderr.splitlines()
        assert lines == ["record 1", "wait 0", "copy to 1", "record 0", "wait 1"], done.stderr

    def test_a_device_is_started_when_it_is_used(self, emulator):
        program = """
import rushlight as torch
torch.cuda.set_device(1)
x = torch.ones(3, device="cuda") * 2
print(x.device, x.tolist(), torch.cuda.memory_reserved(0))
"""
        text = run(emulator, program, EMULATED_CUDA_DEVICES="2", EMULATED_CUDA_FAIL="context:2")
        assert text == "cuda:1 [2.0, 2.0, 2.0] 0\n"

    def test_graphs(self, emulator):
        check(emulator, "check_graphs.py", "-k", "not nadam and not radam")

    def test_variates(self, emulator):
        check(emulator, "check_variates.py")

    def test_scaling(self, emulator):
        check(emulator, "check_scaling.py")

    def test_numbers(self, emulator):
        check(emulator, "check_numbers.py")

    def test_shared_memory(self, emulator):
        check(emulator, "check_sharing.py")

    def test_autograd(self, emulator):
        check(emulator, "check_autograd.py")

    @pytest.mark.parametrize("late", ["side", "first"])
    def test_streams_wait_for_each_other(self, emulator, late):
        check(emulator, "check_autograd.py", "-k", "stream or host", EMULATED_CUDA_LATE=late)

    @pytest.mark.parametrize("late", ["", "side", "first"])
    def test_pinned_memory(self, emulator, late):
        check(emulator, "check_pinned.py", **({"EMULATED_CUDA_LATE": late} if late else {}))

    def test_mixed_precision(self, emulator):
        check(emulator, "check_autocast.py", "-k", "float16 or widest or host")

    def test_nccl(self, emulator):
        check(emulator, "check_nccl.py")

    @pytest.mark.parametrize("without", ["", "EMULATED_CUDA_NO_DNN"])
    def test_layers(self, emulator, without):
        selected = "strided or volume or shape0 or shape1"
        check(emulator, "check_layers.py", "-k", selected, **({without: "1"} if without else {}))

    def test_training(self, emulator):
        check(
            emulator,
            "check_training.py",
            "-k",
            "gpt or adamw or halves or clipped or second or mixed",
        )

    def test_ops(self, emulator):
        # A sample of the law; tools/cuda_check runs all of it.
        selected = "float32 or complex64"
        check(emulator, "check_ops.py", "-k", selected, RUSHLIGHT_CUDA_PART="0/16")

    def test_recording(self, emulator):
        check(emulator, "check_recording.py", RUSHLIGHT_CUDA_PART="0/8")


SMALL = "import rushlight as torch; x = torch.ones(3, device='cuda'); "


@needs_compiler
class TestCache:
    def test_kernels_are_compiled_once(self, emulator):
        program = SMALL + "print((x * 3).tolist(), *torch._C._cuda_compiler().values())"
        first = run(emulator, program, RUSHLIGHT_CACHE=str(emulator / "own"))
        second = run(emulator, program, RUSHLIGHT_CACHE=str(emulator / "own"))
        assert first.startswith("[3.0, 3.0, 3.0]")
        assert second.split()[-3] == "0"  # compiled
        assert second.split()[-2] == first.split()[-3]  # read

    def test_a_damaged_file_is_found_out(self, emulator):
        program = SMALL + "print((x * 5).tolist())"
        run(emulator, program, RUSHLIGHT_CACHE=str(emulator / "damaged"))
        for file in (emulator / "damaged" / "cuda").iterdir():
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        text = run(emulator, program, RUSHLIGHT_CACHE=str(emulator / "damaged"))
        assert text == "[5.0, 5.0, 5.0]\n"

    def test_what_the_driver_refuses_is_compiled_anew(self, emulator):
        program = SMALL + "print((x * 6).tolist(), *torch._C._cuda_compiler().values())"
        folder = str(emulator / "refused")
        run(emulator, program, RUSHLIGHT_CACHE=folder)
        text = run(emulator, program, RUSHLIGHT_CACHE=folder, EMULATED_CUDA_FAIL="module:1")
        assert text.startswith("[6.0, 6.0, 6.0] 1 ")

    def test_a_folder_of_others_is_not_used(self, emulator):
        folder = emulator / "open" / "cuda"
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        run(emulator, SMALL + "x * 7", RUSHLIGHT_CACHE=str(emulator / "open"))
        assert not list(folder.iterdir())


@needs_compiler
class TestFailures:
    def test_launches(self, emulator):
        program = SMALL + (
            "y = x * 2\ntry:\n  y = x * 2\nexcept RuntimeError as e:\n  print(e)\n"
            "print((x * 2).tolist())"
        )
        text = run(emulator, program, EMULATED_CUDA_FAIL="launch:3")
        assert "CUDA error: unspecified launch failure" in text
        assert text.endswith("[2.0, 2.0, 2.0]\n")

    def test_the_driver(self, emulator):
        program = "import rushlight as torch; print(torch.cuda.is_available())"
        assert run(emulator, program, EMULATED_CUDA_FAIL="init:1") == "False\n"

    def test_memory_that_runs_out(self, emulator):
        program = """
import rushlight as torch
a = torch.empty(50 << 20, dtype=torch.uint8, device="cuda")
del a
b = torch.empty(90 << 20, dtype=torch.uint8, device="cuda")  # what was kept is given back for it
try:
    torch.empty(90 << 20, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as e:
    print(e)
print(torch.cuda.memory_stats()["num_ooms"], torch.cuda.memory_stats()["num_alloc_retries"])
"""
        text = run(emulator, program, EMULATED_CUDA_MEMORY=str(128 << 20))
        assert "CUDA out of memory. Tried to allocate" in text
        assert text.endswith("1 2\n")

    def test_without_cublas(self, emulator):
        program = (
            "import rushlight as torch; a = torch.arange(6.0, device='cuda').reshape(2, 3); "
            "print((a @ a.T).tolist())"
        )
        text = run(emulator, program, EMULATED_CUDA_NO_BLAS="1")
        assert text == "[[5.0, 14.0], [14.0, 50.0]]\n"


def test_the_table_of_kernels_says_what_is_there():
    kernels = dict(_C._cuda_kernels())
    assert kernels["pointwise"]
    assert kernels["gemm"]
    assert sum(kernels.values()) > len(kernels) / 2
