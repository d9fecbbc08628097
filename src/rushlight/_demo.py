"""`rushlight demo`: a small transformer learns to write Python from Python's own library.

Only tensors and autograd are used: the model, its training and its sampling are written out.
"""

from __future__ import annotations

import math
import os
import sys
import sysconfig
import time
from collections.abc import Iterator
from typing import Any, TextIO

CONTEXT = 48
WIDTH = 96
HEADS = 4
LAYERS = 1
BATCH = 24
LEARNING_RATE = 5e-3
STEPS = 900
SECONDS = 35.0
TEXT_LIMIT = 2_000_000
# Modules of prose-like code that every installation has.
FIRST_FILES = ("argparse.py", "ast.py", "collections/__init__.py", "dataclasses.py", "inspect.py")

Parameters = dict[str, Any]


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
    if size < 100 * CONTEXT:
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


def new_parameters(torch: Any, letters: int) -> Parameters:
    def matrix(rows: int, columns: int, scale: float = 1.0) -> Any:
        return torch.randn(rows, columns) * (scale / math.sqrt(columns))

    p: Parameters = {
        "letter": torch.randn(letters, WIDTH) * 0.1,
        "place": torch.randn(CONTEXT, WIDTH) * 0.1,
        "norm": torch.ones(WIDTH),
        "out": matrix(letters, WIDTH),
    }
    for i in range(LAYERS):
        p[f"{i}.norm1"] = torch.ones(WIDTH)
        p[f"{i}.qkv"] = matrix(3 * WIDTH, WIDTH)
        p[f"{i}.mix"] = matrix(WIDTH, WIDTH, 0.5)
        p[f"{i}.norm2"] = torch.ones(WIDTH)
        p[f"{i}.up"] = matrix(4 * WIDTH, WIDTH)
        p[f"{i}.down"] = matrix(WIDTH, 4 * WIDTH, 0.5)
    for t in p.values():
        t.requires_grad = True
    return p


def future_mask(torch: Any, size: int, dtype: Any) -> Any:
    """Zero where a position may look, a large negative number where it would see the future."""
    rows = [[0.0 if j <= i else -1e9 for j in range(size)] for i in range(size)]
    return torch.tensor(rows, dtype=dtype)


def attention(torch: Any, x: Any, qkv: Any, mix: Any, mask: Any) -> Any:
    F = torch.nn.functional
    batch, size, _ = x.shape
    heads = F.linear(x, qkv).reshape(batch, size, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    q, k, v = heads[0], heads[1], heads[2]
    scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS) + mask
    seen = torch.softmax(scores, -1) @ v
    return F.linear(seen.transpose(1, 2).reshape(batch, size, WIDTH), mix)


def logits(torch: Any, p: Parameters, codes: Any) -> Any:
    """Scores of the next letter after each of `codes`, a (batch, size) tensor of letters."""
    F = torch.nn.functional
    size = codes.shape[1]
    x = F.embedding(codes, p["letter"]) + p["place"][:size]
    mask = future_mask(torch, size, x.dtype)
    for i in range(LAYERS):
        y = F.layer_norm(x, (WIDTH,), p[f"{i}.norm1"])
        x = x + attention(torch, y, p[f"{i}.qkv"], p[f"{i}.mix"], mask)
        y = F.layer_norm(x, (WIDTH,), p[f"{i}.norm2"])
        x = x + F.linear(F.gelu(F.linear(y, p[f"{i}.up"])), p[f"{i}.down"])
    return F.linear(F.layer_norm(x, (WIDTH,), p["norm"]), p["out"])


def loss_of(torch: Any, p: Parameters, batch: Any) -> Any:
    """Mean cross-entropy, in nats per letter, of a (batch, size + 1) tensor of letters."""
    scores = logits(torch, p, batch[:, :-1])
    letters = scores.shape[-1]
    return torch.nn.functional.cross_entropy(scores.reshape(-1, letters), batch[:, 1:].reshape(-1))


class Adam:
    def __init__(self, torch: Any, p: Parameters) -> None:
        self._torch, self._p, self._steps = torch, p, 0
        self._mean = {k: torch.zeros_like(t) for k, t in p.items()}
        self._square = {k: torch.zeros_like(t) for k, t in p.items()}

    def step(self, rate: float) -> None:
        self._steps += 1
        rate *= math.sqrt(1 - 0.99**self._steps) / (1 - 0.9**self._steps)
        with self._torch.no_grad():
            for k, t in self._p.items():
                m, s, g = self._mean[k], self._square[k], t.grad
                m += 0.1 * (g - m)
                s += 0.01 * (g * g - s)
                t -= rate * m / (s.sqrt() + 1e-8)
                t.grad = None


# -- what it shows --------------------------------------------------------------------------------


def gradient_check(torch: Any, p: Parameters, batch: Any, name: str) -> list[tuple[Any, ...]]:
    """(index, by autograd, by central difference) of some entries of one parameter, in float64."""
    wide = {k: t.detach().to(torch.float64) for k, t in p.items()}
    target = wide[name]
    target.requires_grad = True
    loss_of(torch, wide, batch).backward()
    gradient = target.grad.tolist()
    step, rows, columns = 1e-5, target.shape[0], target.shape[1]
    entries = []
    for i, j in ((1, 2), (rows // 2, columns // 3), (rows - 1, columns - 2)):
        around = []
        with torch.no_grad():
            for change in (step, -step):
                target[i, j] += change
                around.append(loss_of(torch, wide, batch).item())
                target[i, j] -= change
        entries.append(((i, j), gradient[i][j], (around[0] - around[1]) / (2 * step)))
    return entries


def sample(torch: Any, p: Parameters, codec: Characters, prompt: str, length: int) -> str:
    codes = codec.encode(prompt)
    with torch.no_grad():
        for _ in range(length):
            scores = logits(torch, p, torch.tensor([codes[-CONTEXT:]]))[0, -1]
            chances = torch.softmax(scores / 0.7, -1)
            codes.append(int(torch.multinomial(chances, 1).item()))
    return codec.decode(codes)


class Progress:
    """A bar on one line that is drawn over; on a file or pipe, a line now and then."""

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream, self._total = stream, total
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb"
        unicode = (getattr(stream, "encoding", None) or "").lower().startswith("utf")
        self._full, self._rest = ("━", "─") if unicode else ("#", "-")
        self._drawn = 0.0

    def update(self, done: int, note: str, last: bool) -> None:
        if self._live:
            now = time.perf_counter()
            if now - self._drawn < 0.1 and not last:
                return
            self._drawn = now
            filled = 28 * done // self._total
            bar = self._full * filled + self._rest * (28 - filled)
            self._stream.write(f"\r  {bar} {done:>4}/{self._total}  {note}\x1b[K")
            if last:
                self._stream.write("\n")
        elif last or done % max(1, self._total // 8) == 0:
            self._stream.write(f"  step {done:>4}/{self._total}  {note}\n")
        self._stream.flush()


def batches(torch: Any, codes: Any, count: int) -> Iterator[Any]:
    reach = torch.tensor(list(range(CONTEXT + 1)))
    for _ in range(count):
        starts = torch.randint(0, codes.shape[0] - CONTEXT - 1, (BATCH, 1))
        yield codes[starts + reach]


def run(steps: int = STEPS, seconds: float = SECONDS, seed: int = 0) -> int:
    """Trains, checks and samples; returns the exit status of the command.

    Training ends after `steps`, or earlier when `seconds` have passed.
    """
    import rushlight as torch

    out = sys.stdout

    def say(*lines: str) -> None:
        for line in lines or ("",):
            print(line, file=out)

    torch.manual_seed(seed)
    codec = Characters()
    text, files = library_text()
    codes = torch.tensor(codec.encode(text))
    p = new_parameters(torch, len(codec))
    count = sum(t.numel() for t in p.values())
    say(f"rushlight {torch.__version__}: a transformer learns to write Python", "")
    say(f"  text    {len(text):,} letters of {files} files of the standard library")
    say(f"  model   {LAYERS} attention layer, {WIDTH} wide, {HEADS} heads, {count:,} parameters")
    say(f"  batch   {BATCH} x {CONTEXT} letters, {torch.get_num_threads()} threads", "")

    seen, progress, optimizer = [], Progress(out, steps), Adam(torch, p)
    quickest, spent, step = math.inf, 0.0, 0
    began = time.perf_counter()
    for batch in batches(torch, codes, steps):
        start = time.perf_counter()
        loss = loss_of(torch, p, batch)
        loss.backward()
        step += 1
        left = 1 - max(step / steps, min(1.0, spent / seconds))
        optimizer.step(LEARNING_RATE * min(1.0, step / 20) * (0.05 + 0.95 * left))
        now = time.perf_counter()
        quickest, spent = min(quickest, now - start), now - began
        seen.append(loss.item())
        recent = seen[-20:]
        late = spent > seconds
        progress.update(step, f"loss {sum(recent) / len(recent):.3f}", last=late or step == steps)
        if late:
            break
    final = sum(seen[-20:]) / len(seen[-20:])

    say("", f"  loss    {seen[0]:.3f} -> {final:.3f} nats per letter")
    mean = spent / step
    say(f"  time    {spent:.1f} s, {1e3 * mean:.1f} ms per step (quickest {1e3 * quickest:.1f})")
    say(f"  rate    {BATCH * CONTEXT / mean:,.0f} tokens per second, forward, backward and update")
    say()

    name = "0.qkv"
    say(f"  gradient of {name!r}, in float64", "")
    say("    entry          by autograd   by differences   relative error")
    small = next(batches(torch, codes, 1))[:2]
    worst = 0.0
    for index, by_rule, by_step in gradient_check(torch, p, small, name):
        error = abs(by_rule - by_step) / max(abs(by_rule), abs(by_step), 1e-6)
        worst = max(worst, error)
        say(f"    {index!s:<10} {by_rule:>15.9f}  {by_step:>15.9f}   {error:>14.1e}")
    agrees = worst < 1e-4
    learned = final < 0.8 * seen[0]
    say("", f"    {'they agree' if agrees else 'THEY DIFFER: this is a bug'}", "")

    say("  a sample", "")
    for line in sample(torch, p, codec, "def ", 300).splitlines():
        say("    | " + line[:90])
    say()
    if not learned:
        say("  THE LOSS DID NOT FALL: this is a bug", "")
    return 0 if agrees and learned else 1
