"""`rushlight compat`: the names of torch that a program uses, without running it."""

import json
import textwrap
from pathlib import Path

import pytest

from rushlight import cli
from rushlight._compat import Report, Scan, sources
from rushlight._compat.names import gives_tensor


def names(text):
    scan = Scan(textwrap.dedent(text), "file.py", gives_tensor)
    return sorted({use.name for use in scan.uses})


def report(text, tmp_path, name="program.py"):
    file = tmp_path / name
    file.write_text(textwrap.dedent(text))
    return Report().read(*sources(str(file)), follow=True)


class TestNamesAreFollowed:
    def test_through_imports_and_aliases(self):
        text = """
            import torch, torch.utils.data as D
            from torch import nn as layers
            from torch.nn.functional import relu as r
            F = layers.functional
            G = F
            layers.Linear; D.DataLoader; G.gelu
        """
        assert names(text) == [
            "torch", "torch.nn", "torch.nn.Linear", "torch.nn.functional",
            "torch.nn.functional.gelu", "torch.nn.functional.relu", "torch.utils.data",
            "torch.utils.data.DataLoader",
        ]  # fmt: skip

    def test_into_functions_that_stand_before_the_import(self):
        assert "torch.sin" in names("def f(x): return torch.sin(x)\nimport torch")

    def test_into_methods_defaults_decorators_and_comprehensions(self):
        text = """
            import torch
            class A(torch.nn.Module):
                def f(self, d=torch.float32): return [torch.sin(x) for x in (torch.ones(1),)]
                @torch.no_grad()
                def g(self): return lambda x: torch.cos(x)
        """
        found = names(text)
        for each in ("nn.Module", "float32", "sin", "ones", "no_grad", "cos"):
            assert f"torch.{each}" in found

    def test_not_past_names_that_mean_something_else(self):
        text = """
            import torch
            import numpy as np
            def f(torch): return torch.absent
            def g():
                torch = np
                return torch.absent
            [torch.absent for torch in np.arrays]
        """
        assert names(text) == ["torch"]

    def test_a_class_hides_nothing_from_its_methods(self):
        text = """
            import torch
            class A:
                torch = None
                def f(self): return torch.sin
        """
        assert "torch.sin" in names(text)

    def test_a_fallback_for_when_torch_is_absent_is_no_new_meaning(self):
        text = "try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.sin"
        assert "torch.sin" in names(text)

    def test_by_literal_names(self):
        text = """
            import torch, importlib
            getattr(torch, "sin")
            getattr(torch.nn, "ReLU")()
            importlib.import_module("torch.fft")
        """
        assert names(text) == ["torch", "torch.fft", "torch.nn", "torch.nn.ReLU", "torch.sin"]

    def test_in_annotations_also_in_quotes(self):
        assert "torch.Tensor" in names("import torch\ndef f(x: 'torch.Tensor | None'): pass")


class TestTensors:
    def test_annotated_ones_are_known(self):
        text = "import torch\ndef f(x: torch.Tensor, y): return x.foo, y.bar"
        assert "torch.Tensor.foo" in names(text)
        assert "torch.Tensor.bar" not in names(text)

    def test_results_of_operations_are_known(self):
        text = "import torch\nx = torch.randn(3)\ny = -x.sin() * 2\ny.foo\nx.topk(1).values"
        assert "torch.Tensor.foo" in names(text)
        assert "torch.Tensor.values" not in names(text)

    def test_until_the_name_is_bound_anew(self):
        text = "import torch\nx = torch.randn(3)\nx = x.tolist()\nx.foo"
        assert "torch.Tensor.foo" not in names(text)

    def test_an_annotation_that_is_wrong_is_no_finding(self):
        text = "import torch\ndef f(x: torch.Tensor): x.append(1); x.items()"
        assert names(text) == ["torch", "torch.Tensor"]

    def test_setting_an_attribute_asks_for_nothing(self):
        assert "torch.Tensor.foo" not in names("import torch\nx = torch.randn(3)\nx.foo = 1")


class TestWhatIsMissing:
    def test_it_is_named_as_far_as_it_is_missing(self, tmp_path):
        found = report("import torch\ntorch.nn.Lineal.forward(1)\ntorch.nn.Linear", tmp_path)
        (missing,) = found.missing
        assert missing.name == "torch.nn.Lineal"
        assert list(missing.uses) == ["program.py:2"]
        assert "torch.nn.Linear" in missing.hint
        assert found.names["torch.nn.Linear"].present

    def test_names_of_private_modules_have_hints_too(self, tmp_path):
        (missing,) = report("import torch\ntorch._tensor.Tensr", tmp_path).missing
        assert "torch._tensor.Tensor" in missing.hint

    @pytest.mark.parametrize(
        "text",
        [
            "try:\n    from torch.absent import x\nexcept ImportError:\n    x = None",
            "if hasattr(torch, 'absent'):\n    torch.absent()",
            "f = getattr(torch, 'absent', None)",
            "if torch.__version__ > '9':\n    torch.absent()",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from torch import absent",
            "if torch.xpu.is_available():\n    torch.xpu.absent()",
        ],
    )
    def test_a_guarded_use_is_told_apart(self, text, tmp_path):
        found = report("import torch\n" + text, tmp_path)
        assert found.missing == []
        assert len(found.optional) == 1

    def test_one_use_without_a_guard_is_enough(self, tmp_path):
        text = "import torch\nf = getattr(torch, 'absent', None)\ntorch.absent()"
        assert [each.name for each in report(text, tmp_path).missing] == ["torch.absent"]

    def test_operators_that_the_program_registers_are_its_own(self, tmp_path):
        assert report("import torch\ntorch.ops.mine.twice(1)", tmp_path).missing == []

    def test_what_is_none_here_has_no_missing_parts(self, tmp_path):
        assert report("import torch\ntorch.version.hip.split('.')", tmp_path).missing == []

    def test_names_that_only_explain_themselves_are_told_apart(self, tmp_path):
        found = report("import torch\ntorch.onnx.export()\ntorch.save", tmp_path)
        assert found.missing == []
        assert [each.name for each in found.left_out] == ["torch.onnx.export"]

    def test_neighbours_are_read(self, tmp_path):
        (tmp_path / "package").mkdir()
        (tmp_path / "package" / "__init__.py").write_text("from .part import f")
        (tmp_path / "package" / "part.py").write_text("import torch\nf = torch.absent")
        found = report("import package", tmp_path)
        assert found.files == 3
        assert list(found.missing[0].uses) == ["package/part.py:2"]

    def test_the_examples_and_programs_use_nothing_missing(self):
        found = Report().read(*sources(str(Path(__file__).parent / "programs")))
        assert found.files > 10
        assert [each.name for each in found.missing] == []


class TestTheCommand:
    def test_it_lists_and_fails_when_something_is_missing(self, tmp_path, capsys):
        file = tmp_path / "a.py"
        file.write_text("import torch\ntorch.sin\ntorch.absent")
        assert cli.main(["compat", str(file)]) == 1
        text = capsys.readouterr().out
        assert "3 names of torch in 1 file, 1 missing" in text
        assert "torch.absent  a.py:3" in text
        file.write_text("import torch\ntorch.sin")
        assert cli.main(["compat", str(file)]) == 0
        assert "all there" in capsys.readouterr().out

    def test_nothing_is_run(self, tmp_path):
        file = tmp_path / "a.py"
        file.write_text("import torch\nraise SystemExit(9)")
        assert cli.main(["compat", str(file)]) == 0

    def test_json(self, tmp_path, capsys):
        file = tmp_path / "a.py"
        file.write_text("import torch\ntorch.absent")
        assert cli.main(["compat", "--json", str(file)]) == 1
        found = json.loads(capsys.readouterr().out)
        assert found["missing"] == ["torch.absent"]
        assert found["names"]["torch"]["present"] is True

    def test_a_notebook(self, tmp_path, capsys):
        cells = [
            {"cell_type": "markdown", "source": ["torch.text"]},
            {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch\n"]},
            {"cell_type": "code", "source": ["torch.absent"]},
        ]
        file = tmp_path / "a.ipynb"
        file.write_text(json.dumps({"cells": cells}))
        assert cli.main(["compat", str(file)]) == 1
        assert "a.ipynb:3" in capsys.readouterr().out

    def test_an_installed_package(self, capsys):
        assert cli.main(["compat", "json"]) == 0
        assert "no name of torch in 5 files" in capsys.readouterr().out

    def test_a_file_with_an_error_is_mentioned(self, tmp_path, capsys):
        file = tmp_path / "a.py"
        file.write_text("import torch\ntorch.(")
        assert cli.main(["compat", str(file)]) == 0
        assert "not read: a.py" in capsys.readouterr().err

    @pytest.mark.parametrize("target", ["absent.py", "no_such_package"])
    def test_what_is_not_there_is_an_error(self, target, capsys):
        assert cli.main(["compat", target]) == 2
        assert target in capsys.readouterr().err
