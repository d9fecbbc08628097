"""`rushlight run`: torch is rushlight in that process, and the program is as on its own."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import rushlight

COMMAND = [sys.executable, "-m", "rushlight", "run"]


def run(*arguments, cwd=None, stdin=None, options=()):
    path = os.path.dirname(os.path.dirname(rushlight.__file__))
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, *options, *COMMAND[1:], *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, input=stdin, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def script(tmp_path):
    def write(text, name="program.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def output(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestTheProgramsWorld:
    def test_it_is_main_with_its_own_arguments_and_path(self, script):
        path = script(
            "import sys, json, pickle\n"
            "class A: pass\n"
            "assert sys.modules['__main__'].A is A and type(pickle.loads(pickle.dumps(A()))) is A\n"
            "print(json.dumps([__name__, __file__, sys.argv, sys.path[0], __spec__]))\n"
        )
        name, file, argv, first, spec = json.loads(output(run(path, "-m", "--x", "a b")))
        assert name == "__main__"
        assert file == str(path)
        assert argv == [str(path), "-m", "--x", "a b"]
        assert first == str(path.parent)
        assert spec is None

    def test_neighbours_are_imported(self, script):
        script("import torch\nvalue = torch.ones(2).sum().item()\n", "neighbour.py")
        path = script("import neighbour, sys\nprint(neighbour.value, sys.argv[0])\n")
        assert output(run(path.name, cwd=path.parent)) == "2.0 program.py\n"

    def test_a_module(self, script):
        script("", "package/__init__.py")
        path = script(
            "import sys, torch\nfrom . import __name__ as parent\n"
            "print(parent, __name__, sys.argv[1:], torch.ones(1).item())\n",
            "package/tool.py",
        )
        done = run("-m", "package.tool", "1", "-q", cwd=path.parent.parent)
        assert output(done) == "package __main__ ['1', '-q'] 1.0\n"
        assert run("-m", "package.absent", cwd=path.parent.parent).returncode == 1

    def test_a_folder(self, script):
        path = script("import torch\nprint(torch.ones(1).item(), __name__)\n", "app/__main__.py")
        assert output(run(path.parent)) == "1.0 __main__\n"

    def test_standard_input_is_the_programs(self, script):
        path = script("import sys, torch\nprint(torch.tensor(float(sys.stdin.readline())) * 2)\n")
        assert output(run(path, stdin="4\n")) == "tensor(8.)\n"

    def test_the_program_from_standard_input(self):
        assert output(run("-", "a", stdin="import torch, sys\nprint(sys.argv)\n")) == "['-', 'a']\n"

    def test_atexit_and_threads_are_waited_for(self, script):
        path = script(
            "import atexit, threading, time\natexit.register(print, 'bye')\n"
            "threading.Thread(target=lambda: (time.sleep(0.1), print('done'))).start()\n"
        )
        assert output(run(path)) == "done\nbye\n"


class TestTheAlias:
    def test_modules_are_the_same_objects(self, script):
        path = script(
            "import sys, torch, torch.nn as nn, torch.nn.functional as F\n"
            "from torch.utils import checkpoint\n"
            "import torch.autograd.forward_ad, torch.overrides\n"
            "import rushlight\n"
            "assert torch is rushlight and nn is rushlight.nn and F is rushlight.nn.functional\n"
            "assert torch.overrides is sys.modules['rushlight.overrides']\n"
            "assert checkpoint is rushlight.utils.checkpoint\n"
            "for name in [n for n in sys.modules if n.startswith('torch.')]:\n"
            "    assert sys.modules[name] is sys.modules['rushlight' + name[5:]]\n"
            "    assert sys.modules[name].__name__ == name or name == 'torch._C'\n"
            "print(torch.nn.__spec__.name)\n"
        )
        assert output(run(path)) == "rushlight.nn\n"

    def test_everything_says_that_it_is_torchs(self, script):
        path = script(
            "import torch, torch.nn as nn\n"
            "from torch.optim import lr_scheduler\n"
            "print(torch.__name__, nn.functional.__name__, torch.optim.__name__)\n"
            "print(torch.Tensor.__module__, torch.Size.__module__, torch.dtype.__module__)\n"
            "print(nn.Linear.__module__, nn.LSTMCell.__module__, lr_scheduler.StepLR.__module__)\n"
            "print(nn.functional.relu.__module__, torch.add.__module__, torch.save.__module__)\n"
            "print(repr(torch.Tensor), nn.Module().__class__, torch.typename(nn.ReLU()))\n"
            "try: torch.ones(1) + 'x'\n"
            "except TypeError as error: print(error)\n"
        )
        assert output(run(path)).splitlines() == [
            "torch torch.nn.functional torch.optim",
            "torch torch torch",
            "torch.nn.modules.linear torch.nn.modules.rnn torch.optim.lr_scheduler",
            "torch.nn.functional torch torch.serialization",
            "<class 'torch.Tensor'> <class 'torch.nn.modules.module.Module'> "
            "torch.nn.modules.activation.ReLU",
            "unsupported operand type(s) for +: 'torch.Tensor' and 'str'",
        ]
        assert rushlight.Tensor.__module__ == rushlight.__name__ == "rushlight"
        assert rushlight.nn.Linear.__module__ == "rushlight.nn.modules.linear"

    def test_pickles_name_torch(self, script):
        path = script(
            "import io, pickle, torch, torch.nn as nn\n"
            "model = nn.Sequential(nn.Linear(2, 3), nn.LSTMCell(3, 4), nn.Flatten())\n"
            "file = io.BytesIO()\n"
            "torch.save(model, file)\n"
            "for data in (pickle.dumps(model), file.getvalue()):\n"
            "    print(b'rushlight' in data, b'torch.nn.modules.rnn' in data)\n"
            "print(type(pickle.loads(pickle.dumps(model))[1]) is nn.LSTMCell)\n"
        )
        assert output(run(path)) == "False True\nFalse True\nTrue\n"

    def test_functorch_comes_with_it(self, script):
        path = script(
            "import functorch, torch\n"
            "from functorch import make_functional, vmap\n"
            "call, params = make_functional(torch.nn.Linear(2, 1))\n"
            "print(vmap is torch.vmap, call(params, torch.ones(1, 2)).shape)\n"
            "try: import functorch.compile\n"
            "except ModuleNotFoundError as error: print(error)\n"
        )
        lines = output(run(path)).splitlines()
        assert lines[0] == "True torch.Size([1, 1])"
        assert "No module named 'functorch.compile'" in lines[1]

    def test_the_metadata_of_the_distribution(self, script):
        path = script(
            "import importlib.metadata as metadata, importlib.util, torch\n"
            "print(metadata.version('torch') == str(torch.__version__))\n"
            "print(metadata.metadata('Torch')['Name'], metadata.requires('torch'))\n"
            "print(sum(d.metadata['Name'] == 'torch' for d in metadata.distributions()) >= 1)\n"
            "print(metadata.version('pytest') != '')\n"
            "try: metadata.version('torch-of-no-kind')\n"
            "except metadata.PackageNotFoundError: print('none')\n"
        )
        assert output(run(path)) == "True\ntorch None\nTrue\nTrue\nnone\n"

    def test_seeds_give_pytorchs_numbers(self, script):
        path = script("import torch\ntorch.manual_seed(0)\nprint(torch.rand(3))\n")
        assert output(run(path)) == "tensor([0.4963, 0.7682, 0.0885])\n"

    def test_versions_compare(self, script):
        path = script(
            "import torch\n"
            "assert torch.__version__ >= '2.9' and torch.__version__ < (3, 0)\n"
            "assert tuple(map(int, torch.__version__.split('.')[:2])) == (2, 13)\n"
            "print(torch.__version__)\n"
        )
        assert output(run(path)) == "2.13.0+rushlight\n"

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_worker_processes_have_it(self, script, method):
        path = script(
            "import torch, multiprocessing as mp\n"
            "def work(i):\n"
            "    import torch.nn.functional as F\n"
            "    torch.manual_seed(i)\n"
            "    return F.__name__, torch.rand(1).item(), torch.__version__\n"
            "if __name__ == '__main__':\n"
            f"    with mp.get_context({method!r}).Pool(1) as pool:\n"
            "        print(pool.map(work, [0]) == [work(0)])\n"
        )
        assert output(run(path)) == "True\n"


MISSING = {
    "torch.reluu": ("AttributeError", "module 'torch' has no attribute 'reluu'", "torch.relu"),
    "torch.Parameter": ("AttributeError", "'Parameter'", "it is torch.nn.Parameter"),
    "torch.nn.Paramter": ("AttributeError", "'torch.nn' has no", "torch.nn.Parameter"),
    "torch.nn.functional.relv": ("AttributeError", "'torch.nn.functional'", "functional.relu"),
    "torch.ones(2).summ()": ("AttributeError", "no attribute 'summ'", "Tensor.sum"),
    "torch.Tensor.summ": ("AttributeError", "no attribute 'summ'", "Tensor.sum"),
    "from torch import manual_sed": ("ImportError", "'manual_sed' from 'torch'", "manual_seed"),
    "from torch.nn import Paramter": ("ImportError", "from 'torch.nn'", "torch.nn.Parameter"),
    "from torch.nn.functional import relv": ("ImportError", "'relv'", "torch.nn.functional.relu"),
    "import torch.nnn": ("ModuleNotFoundError", "No module named 'torch.nnn'", "torch.nn"),
    "from torch.zork.x import y": ("ModuleNotFoundError", "'torch.zork'", "rushlight"),
}


class TestMissingNames:
    @pytest.mark.parametrize("line", MISSING)
    def test_are_named_with_what_is_near(self, script, line):
        path = script(f"import torch\n\ndef f():\n    {line}\n\nf()\n")
        done = run(path)
        kind, what, near = MISSING[line]
        assert done.returncode == 1
        last = done.stderr[done.stderr.index("in f\n") :]
        assert f"\n{kind}: " in last
        assert what in last
        assert near in last
        assert "rushlight" in last
        assert user_frames(done.stderr) == ["<module>", "f"]

    def test_can_be_asked_for(self, script):
        path = script(
            "import torch, importlib.util\n"
            "print(hasattr(torch, 'zork'), hasattr(torch.nn, 'zork'), getattr(torch, 'zork', 1))\n"
            "print(importlib.util.find_spec('torch.zork'))\n"
            "print(importlib.util.find_spec('torch.nn').name)\n"
            "try:\n    import torch.zork\nexcept ImportError as e:\n    print(e.name)\n"
        )
        expected = ["False False 1", "None", "rushlight.nn", "torch.zork"]
        assert output(run(path)).splitlines() == expected

    def test_without_the_alias(self):
        with pytest.raises(AttributeError, match=r"'rushlight' has no attribute 'reluu'.*relu"):
            rushlight.reluu
        with pytest.raises(AttributeError, match=r"'rushlight.nn' has no .*rushlight.nn.Linear"):
            rushlight.nn.Linera
        with pytest.raises(AttributeError, match=r"'rushlight.optim' has .*rushlight.optim.AdamW"):
            rushlight.optim.AdmW


def user_frames(text):
    return [line.rsplit(" in ", 1)[1] for line in text.splitlines() if line.startswith("  File ")]


class TestEndings:
    @pytest.mark.parametrize(
        ("statement", "status", "text"),
        [
            ("sys.exit()", 0, ""),
            ("sys.exit(7)", 7, ""),
            ("sys.exit('no')", 1, "no\n"),
            ("raise SystemExit(3)", 3, ""),
            ("os._exit(9)", 9, ""),
        ],
    )
    def test_exit_codes(self, script, statement, status, text):
        done = run(script(f"import os, sys, torch\n{statement}\n"))
        assert (done.returncode, done.stderr) == (status, text)

    def test_tracebacks_are_those_of_python(self, script):
        path = script(
            "import torch\n\ndef f(x):\n    return {}[x]\n\n"
            "try:\n    f(1)\nexcept KeyError as error:\n    raise ValueError('bad') from error\n"
        )
        done = run(path)
        assert done.returncode == 1
        assert user_frames(done.stderr) == ["<module>", "f", "<module>"]
        assert done.stderr.startswith(f'Traceback (most recent call last):\n  File "{path}", line')
        assert done.stderr.endswith("ValueError: bad\n")

    def test_errors_of_imported_modules_show_their_frames(self, script):
        script("import torch\n1 / 0\n", "broken.py")
        done = run(script("import torch\nimport broken\n"))
        assert user_frames(done.stderr) == ["<module>", "<module>"]
        assert "ZeroDivisionError" in done.stderr

    def test_syntax_errors(self, script):
        done = run(script("import torch\nx = = 1\n"))
        assert done.returncode == 1
        assert done.stderr.startswith('  File "')
        assert "SyntaxError" in done.stderr

    def test_a_programs_own_excepthook_is_called(self, script):
        path = script("import sys\nsys.excepthook = lambda *a: print('hook', a[1])\n1 / 0\n")
        done = run(path)
        assert (done.returncode, done.stdout, done.stderr) == (1, "hook division by zero\n", "")

    def test_control_c(self, script):
        path = script("import torch, time\nprint('ready', flush=True)\ntime.sleep(20)\n")
        source = os.path.dirname(os.path.dirname(rushlight.__file__))
        with subprocess.Popen(
            [*COMMAND, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": source},
        ) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            _, text = process.communicate(timeout=20)
        assert process.returncode == 130
        assert user_frames(text) == ["<module>"]
        assert text.endswith("KeyboardInterrupt\n")

    @pytest.mark.parametrize("arguments", [[], ["-m"], ["--what"], ["absent.py"]])
    def test_wrong_calls(self, arguments, tmp_path):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert "usage" in done.stderr or "can't open file" in done.stderr
        assert run("--help").stdout.startswith("usage: rushlight run")
