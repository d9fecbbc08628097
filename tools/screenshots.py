"""Makes the pictures of pages in docs/images: a small GPT is trained, its pages are photographed.

    python tools/screenshots.py [folder]

Needs Chromium on the PATH (or RUSHLIGHT_CHROMIUM).
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples")]


def pages(folder: Path) -> None:
    """Trains for a while and writes the pages."""
    import char_gpt
    import rushlight as torch
    from rushlight.profiler import profile

    torch.manual_seed(0)
    text = (ROOT / "examples" / "char_gpt.py").read_text(encoding="utf-8")
    letters = sorted(set(text))
    data = torch.tensor([letters.index(c) for c in text])
    model = char_gpt.GPT(len(letters), length=32, width=32, layers=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 600)

    def loss() -> Any:
        at = torch.randint(0, len(data) - 33, (16,))
        batch = torch.stack([data[i : i + 33] for i in at.tolist()])
        logits = model(batch[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        schedule.step()

    with torch.report(
        folder / "report.html", model, optimizer, title="Training report", budget=0.03
    ):
        for _ in range(600):
            step()
    with profile(with_stack=True, profile_memory=True) as prof:
        for _ in range(4):
            step()
    prof.to_html(folder / "profile.html")
    torch.graph(loss, model, measure=True).to_html(
        folder / "graph.html", title="Graph of a small GPT"
    )
    patient(folder)


def patient(folder: Path) -> None:
    """What the doctor says of the program of its tutorial."""
    import rushlight as torch

    page = (ROOT / "docs" / "tutorials" / "doctor.md").read_text(encoding="utf-8")
    source = re.findall(r"```python\n(.*?)```", page, re.S)[0]
    with contextlib.chdir(folder):  # lines are named as one sees them there
        Path("train.py").write_text(source, encoding="utf-8")
        with torch.doctor() as doctor:
            exec(compile(source, folder / "train.py", "exec"), {"__name__": "train"})
        doctor.to_html("doctor.html", title="train.py")


def main() -> int:
    import browser

    if browser.find() is None:
        print("screenshots: no Chromium on the PATH: apt-get install chromium", file=sys.stderr)
        return 2
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    with tempfile.TemporaryDirectory() as made, browser.Browser() as tab:
        folder = Path(made)
        pages(folder)
        for name in ("graph", "report", "profile", "doctor"):
            tab.size(1200, 760)
            tab.open(folder / f"{name}.html")
            if name == "graph":
                tab.js("Stage.select(G.views[0].label.findIndex(l => G.texts[l] === 'gelu'))")
                tab.frames(2)
            tab.screenshot(target / f"{name}.png")
            print(target / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
