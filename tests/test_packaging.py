"""What packaging reads: one version, what a wheel holds, for which Pythons wheels are made."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rushlight

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TOOLS = PROJECT["tool"]


def test_the_version_is_stated_once():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert "version" not in PROJECT["project"]
    source = TOOLS["scikit-build"]["metadata"]["version"]["input"]
    stated = re.findall(r'^__version__ = "(.+)"$', (ROOT / source).read_text(), re.M)
    assert stated == [rushlight.__version__]


def test_a_wheel_holds_the_package_and_its_benchmarks():
    packages = TOOLS["scikit-build"]["wheel"]["packages"]
    assert packages["rushlight"] == "src/rushlight"
    for target, source in packages.items():
        assert (ROOT / source).is_dir()
        assert target.rpartition("/")[2] == Path(source).name  # as scikit-build-core wants


def test_wheels_are_made_for_every_python_that_is_supported():
    wheels = TOOLS["cibuildwheel"]
    assert wheels["build"].split() == [f"cp3{minor}-*" for minor in (11, 12, 13, 14)]
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert wheels["linux"]["archs"] == ["x86_64", "aarch64"]
    for machine in wheels["linux"]["archs"]:
        assert wheels["linux"][f"manylinux-{machine}-image"] == "manylinux_2_28"


def test_what_wheels_are_tried_with_passes():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "smoke.py")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ok  ") == 5


@pytest.mark.parametrize("system", ["Darwin", "Windows"])
def test_other_systems_are_refused_before_anything_is_compiled(system, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    done = subprocess.run(
        ["cmake", "-S", ROOT, "-B", tmp_path, f"-DCMAKE_SYSTEM_NAME={system}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"Linux is the only system it is built for: got {system}" in " ".join(
        done.stderr.split()
    )
