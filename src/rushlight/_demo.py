"""`rushlight demo`: a small GPT learns to write Python from Python's own library."""

from __future__ import annotations

import copy
import math
import os
import sys
import sysconfig
import time
from typing import Any

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight._terminal import Progress, paint

LENGTH = 64
WIDTH = 96
HEADS = 4
LAYERS = 2
BATCH = 16
LEARNING_RATE = 4e-3
STEPS = 1500
SECONDS = 35.0
TEXT_LIMIT = 2_000_000
CHECKED = "blocks.0.qkv.weight"
# Modules of prose-like code that every installation has.
FIRST_FILES = ("argparse.py", "ast.py", "collections/__init__.py", "dataclasses.py", "inspect.py")


# -- the text -------------------------------------------------------------------------------------


def library_text(limit: int = TEXT_LIMIT) -> tuple[str, int]:
    """Source text of the standard library, and the number of files it came from."""
    root = sysconfig.get_path("stdlib")
    others = sorted(name for name in os.listdir(root) if name.endswith(".py"))
    text, files, size = [], 0, 0
    for name in dict.fromkeys((*FIRST_FILES, *others)):
        try:
            with open(os.path.join(root, name), encoding="utf-8") as file:
                source = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        text.append(source)
        files += 1
        size += len(source)
        if size >= limit:
            break
    if size < 100 * LENGTH:
        raise RuntimeError(f"demo: the standard library's source was not found in {root}")
    return "".join(text)[:limit], files


class Characters:
    """A code for each printable ASCII character, the newline and the tab; others become '?'.

    Four spaces are written as one tab, so that indentation does not fill the context.
    """

    def __init__(self) -> None:
        self.letters = "\n\t" + "".join(map(chr, range(32, 127)))
        self._codes = {c: i for i, c in enumerate(self.letters)}

    def __len__(self) -> int:
        return len(self.letters)

    def encode(self, text: str) -> list[int]:
        unknown = self._codes["?"]
        return [self._codes.get(c, unknown) for c in text.replace("    ", "\t")]

    def decode(self, codes: list[int]) -> str:
        return "".join(self.letters[i] for i in codes).replace("\t", "    ")


# -- the model ------------------------------------------------------------------------------------


class Block(nn.Module):
    """Causal self-attention and a perceptron, each around a residual path."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.mix(seen.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Scores of the next letter after each letter of (batch, length) codes."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letter = nn.Embedding(letters, WIDTH)
        self.place = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, letters, bias=False)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.08)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        x = self.letter(codes) + self.place.weight[: codes.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def loss_of(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy, in nats per letter, of (batch, length + 1) codes."""
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def batch_of(codes: torch.Tensor, rows: int) -> torch.Tensor:
    """Stretches of the text from random places."""
    starts = torch.randint(0, len(codes) - LENGTH - 1, (rows, 1))
    return codes[starts + torch.arange(LENGTH + 1)]


# -- what it shows --------------------------------------------------------------------------------


class Training:
    """Trains a model for `steps`, or until `seconds` have passed."""

    def __init__(self, model: nn.Module, codes: torch.Tensor, steps: int, seconds: float) -> None:
        self.model, self.codes, self.steps, self.seconds = model, codes, steps, seconds
        matrices = [p for p in model.parameters() if p.ndim > 1]
        others = [p for p in model.parameters() if p.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
            betas=(0.9, 0.98),
        )
        self.losses: list[float] = []
        self.spent, self.quickest = 0.0, math.inf

    @property
    def share(self) -> float:
        """How much of the training is done, from 0 to 1."""
        return max(len(self.losses) / self.steps, min(1.0, self.spent / self.seconds))

    def step(self) -> None:
        warm = min(1.0, (len(self.losses) + 1) / 30)
        for group in self.optimizer.param_groups:
            group["lr"] = LEARNING_RATE * warm * (1 - 0.95 * self.share)
        loss = loss_of(self.model, batch_of(self.codes, BATCH))
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.losses.append(loss.item())

    @property
    def recent(self) -> float:
        last = self.losses[-20:]
        return sum(last) / len(last)

    @property
    def rate(self) -> float:
        return len(self.losses) * BATCH * LENGTH / self.spent

    def note(self) -> str:
        return f"loss {self.recent:.3f}  {self.rate:,.0f} tokens/s"

    def run(self, progress: Progress) -> None:
        began = start = time.perf_counter()
        for done in range(1, self.steps + 1):
            self.step()
            now = time.perf_counter()
            self.quickest, self.spent, start = min(self.quickest, now - start), now - began, now
            late = self.spent > self.seconds
            progress.update(done, self.note(), 1.0 if late else self.share)
            if late:
                break


def frequencies_entropy(codes: torch.Tensor, letters: int) -> float:
    """Nats per letter of one who knows how often each letter occurs, and no more."""
    share = torch.bincount(codes, minlength=letters) / len(codes)
    return float(-(share * share.clamp(min=1e-12).log()).sum().item())


def gradient_check(model: nn.Module, name: str, batch: torch.Tensor) -> list[tuple[Any, ...]]:
    """(index, by autograd, by central difference) of some entries of one parameter, in float64."""
    wide = copy.deepcopy(model).double()
    wide.zero_grad()
    target = wide.get_parameter(name)
    (gradient,) = torch.autograd.grad(loss_of(wide, batch), target)
    step, rows, columns = 1e-5, target.shape[0], target.shape[1]
    entries = []
    for i, j in ((1, 2), (rows // 2, columns // 3), (rows - 1, columns - 2)):
        around = []
        with torch.no_grad():
            for change in (step, -step):
                target[i, j] += change
                around.append(loss_of(wide, batch).item())
                target[i, j] -= change
        entries.append(((i, j), gradient[i, j].item(), (around[0] - around[1]) / (2 * step)))
    return entries


@torch.no_grad()
def sample(model: nn.Module, codec: Characters, prompt: str, length: int) -> str:
    model.eval()
    codes = codec.encode(prompt)
    for _ in range(length):
        scores = model(torch.tensor([codes[-LENGTH:]]))[0, -1]
        chances = F.softmax(scores / 0.7, dim=-1)
        codes.append(int(torch.multinomial(chances, 1).item()))
    return codec.decode(codes)


# -- the command ----------------------------------------------------------------------------------


def say(*lines: str) -> None:
    for line in lines or ("",):
        print(line)


def show_gradient(entries: list[tuple[Any, ...]]) -> bool:
    """Prints the comparison of a gradient with differences; says whether they agree."""
    say(f"  gradient of {CHECKED!r}, in float64", "")
    say("    entry          by autograd   by differences   relative error")
    worst = 0.0
    for index, by_rule, by_step in entries:
        error = abs(by_rule - by_step) / max(abs(by_rule), abs(by_step), 1e-6)
        worst = max(worst, error)
        say(f"    {index!s:<10} {by_rule:>15.9f}  {by_step:>15.9f}   {error:>14.1e}")
    agrees = worst < 1e-4
    say("", f"    {'they agree' if agrees else 'THEY DIFFER: this is a bug'}", "")
    return agrees


def run(
    steps: int = STEPS, seconds: float = SECONDS, seed: int = 0, report: str | None = None
) -> int:
    """Trains, checks and samples; returns the exit status of the command.

    Training ends after `steps`, or earlier when `seconds` have passed. `report` is a file to write.
    """
    torch.manual_seed(seed)
    codec = Characters()
    text, files = library_text()
    codes = torch.tensor(codec.encode(text))
    model = GPT(len(codec))
    count = sum(p.numel() for p in model.parameters())
    size = f"{LAYERS} layers, {WIDTH} wide, {HEADS} heads, {count:,} parameters"
    say(paint(f"rushlight {torch.__version__}: a small GPT learns to write Python", "bold"), "")
    say(f"  text    {len(text):,} letters of {files} files of the standard library")
    say(f"  model   {size}, AdamW")
    say(f"  batch   {BATCH} x {LENGTH} letters, {torch.get_num_threads()} threads", "")

    training = Training(model, codes, steps, seconds)
    with Progress(steps, "step", stream=sys.stdout, delay=0) as progress:
        training.run(progress)

    guess = frequencies_entropy(codes, len(codec))
    mean, quickest = 1e3 * training.spent / len(training.losses), 1e3 * training.quickest
    say("", f"  loss    {training.losses[0]:.3f} -> {training.recent:.3f} nats per letter")
    say(f"          by chance {math.log(len(codec)):.3f}, by the letters' frequencies {guess:.3f}")
    say(f"  time    {training.spent:.1f} s, {mean:.1f} ms per step (quickest {quickest:.1f})")
    say(f"  rate    {training.rate:,.0f} tokens per second, forward, backward and update", "")

    entries = gradient_check(model, CHECKED, batch_of(codes, 2))
    agrees = show_gradient(entries)
    say("  a sample", "")
    written = sample(model, codec, "def ", 300)
    for line in written.splitlines():
        say("    | " + line[:90])
    say()
    few = len(training.losses) < 50  # of which the mean of the last twenty says little
    learned = training.losses[-1] < training.losses[0] * (1 if few else 0.8)
    if not learned:
        say("  THE LOSS DID NOT FALL: this is a bug", "")
    if report:
        from rushlight import _demo_page, _pages

        figures = {
            "loss, nats per letter": f"{training.recent:.3f}",
            "steps": f"{len(training.losses):,}",
            "ms per step": f"{mean:.1f}",
            "tokens per second": f"{training.rate:,.0f}",
        }
        marks = {"by chance": math.log(len(codec)), "by the letters' frequencies": guess}
        page = _demo_page.page(size, figures, training.losses, marks, entries, written)
        say(f"  report  {_pages.save(report, page)}", "")
    return 0 if agrees and learned else 1
