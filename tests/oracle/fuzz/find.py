"""One seed, examined: does its program differ, and what is the smallest one that still does?"""

import contextlib
import dataclasses

import numpy as np
import torch

import rushlight
from oracle.fuzz.compare import Difference
from oracle.fuzz.generate import Generator
from oracle.fuzz.program import Program, Statement, is_unstable, replay
from oracle.fuzz.shrink import same_difference, shrink


def start():
    """Before the first program: one thread, so that forked children work."""
    torch.set_num_threads(1)
    rushlight.set_num_threads(1)
    torch.autograd.set_multithreading_enabled(False)


@dataclasses.dataclass
class Finding:
    """A difference, and the program that shows it as Python text."""

    seed: int
    fact: str
    text: str
    statement: str
    source: str

    def __str__(self):
        line = "-" * 79
        return f"{line}\nseed {self.seed}: PyTorch → rushlight: {self.text}\n\n{self.source}"

    def brief(self):
        return f"{self.seed}: {self.text[:300]}\n    {self.statement[:300]}"

    @classmethod
    def of_crash(cls, seed, name, written, dies):
        """Of a program that died: its statements and constants were written as it ran."""
        constants = {k: np.array(v, dtype=t) for w in written for k, (v, t) in w[2].items()}
        statements = {number: Statement(text) for number, text, _, _ in written}
        small = shrink(Program(statements.values(), constants), dies)
        return cls(seed, "signal", f"no signal → {name}", small.statements[-1].text, small.source())


def examine(seed):
    """(verdict, fields of the Finding or None) of the program of a seed."""
    generator = Generator(seed)
    session = generator.session
    try:
        generator.program()
    except Difference as found:
        small = shrink(session.program, same_difference(found))
        replayed, again = replay(small)
        if again is None:  # it depends on what ran before it, or on chance: show all of it
            small, replayed, again = session.program, session, found
        if again.name and is_unstable(small, again.name, replayed.tolerance):
            return "unstable", None
        shown = [again.name] if again.name else []
        source = small.source(replayed.raising, shown)
        finding = Finding(seed, again.fact, str(again), again.statement, source)
        return "different", dataclasses.asdict(finding)
    return ("allowed" if session.ended else "equal"), None


def traced(seed, write):
    """Run a seed's program and write every statement, with its new constants, before it runs."""
    known = set()

    def before(program, library):
        new = {n: a for n, a in program.constants.items() if n not in known}
        known.update(new)
        constants = {n: [a.tolist(), str(a.dtype)] for n, a in new.items()}
        write([len(program.statements), program.statements[-1].text, constants, library])

    with contextlib.suppress(Difference):
        Generator(seed, before).program()
