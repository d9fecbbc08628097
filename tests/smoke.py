"""What an installed wheel must do: no test framework, no NumPy, no compiler; seconds.

python tests/smoke.py
"""

import contextlib
import io
import shutil
import sys
import tempfile
from pathlib import Path

import rushlight as torch
from rushlight import cli, nn


def train() -> None:
    """A small network learns what no line divides."""
    torch.manual_seed(0)
    x = torch.randn(64, 2)
    y = (x[:, 0] * x[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(200):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.3, loss


def derivatives() -> None:
    """Of first and second order, against differences, through the BLAS and a convolution."""
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: torch.tanh(x @ w).sum(0), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: torch.tanh(x @ w).sum(0), (x, w))
    image = torch.randn(1, 1, 5, 5, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(2, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(nn.functional.conv2d, (image, kernel))
    a = w.detach() @ w.detach().T + torch.eye(4, dtype=torch.float64)
    assert torch.allclose(torch.linalg.inv(a) @ a, torch.eye(4, dtype=torch.float64))


def errors() -> None:
    """Name the lines."""
    y = torch.ones(3, requires_grad=True).exp()
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError as error:
        text = str(error)
        assert "modified by an inplace operation" in text
        assert "y.add_(1)" in text, text
    else:
        raise AssertionError("an overwritten value went unnoticed")


def files() -> None:
    """A checkpoint is read as it was written."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.pt")
        state = nn.Linear(3, 2).state_dict()
        torch.save(state, path)
        again = torch.load(path)
        assert all(torch.equal(state[name], again[name]) for name in state)


def commands() -> None:
    """Those that take no time; the benchmarks are installed."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")
        script.write_text("import torch\nprint(torch.arange(3).sum().item())\n")
        for given in (["info"], ["compat", str(script)], ["completion", "bash"]):
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown):
                assert cli.main(given) == 0, given
            assert shown.getvalue()
    from rushlight._commands import bench

    assert "overhead" in bench.subjects()


def main() -> None:
    for check in (train, derivatives, errors, files, commands):
        check()
        print(f"ok  {check.__name__}")
    compilers = [name for name in ("cc", "gcc", "c++", "g++", "clang") if shutil.which(name)]
    print(f"python {sys.version.split()[0]}, rushlight {torch.__version__} of {torch.__file__}")
    print(f"compilers to be found: {', '.join(compilers) or 'none'}")


if __name__ == "__main__":
    main()
