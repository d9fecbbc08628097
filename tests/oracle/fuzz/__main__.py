"""Random programs on rushlight and on PyTorch: `tools/fuzz --programs 20000 --seed 0`.

The programs run in forked workers, so that a crash or a hang ends one program: it is attributed to
its seed and shrunk like any other difference, every attempt in a process of its own.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter

from oracle.fuzz.find import Finding, examine, start, traced
from oracle.fuzz.program import replay


def forked(work):
    """Run work(write) in a child: its process id and the file to read what it wrote from."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, os.fdopen(reading, "r")
    os.close(reading)
    status = 1
    try:
        with os.fdopen(writing, "w") as pipe:

            def write(value):
                pipe.write(json.dumps(value, default=repr) + "\n")
                pipe.flush()

            work(write)
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def ended_by(child):
    """The name of the signal that killed a child, or None."""
    status = os.waitpid(child, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None


def survey(seeds, limit):
    """Yields (seed, verdict, Finding or None) for every seed, whatever the programs do."""
    seeds = list(seeds)
    while seeds:

        def work(write, seeds=tuple(seeds)):
            for seed in seeds:
                write(["start", seed])
                signal.alarm(limit)
                write(["done", seed, *examine(seed)])
                signal.alarm(0)

        child, lines = forked(work)
        done, current = 0, None
        with lines:
            for line in lines:
                what, current, *rest = json.loads(line)
                if what == "done":
                    done += 1
                    verdict, finding = rest
                    yield current, verdict, finding and Finding(**finding)
        name = ended_by(child)
        if name is None:
            if done < len(seeds):
                raise SystemExit(f"the worker failed at seed {current}")
            return
        yield current, *crashed(current, name, limit)
        seeds = seeds[done + 1 :]


def crashed(seed, name, limit):
    """(verdict, Finding or None) of a program that killed its process."""

    def dies(program):
        def work(write):
            signal.alarm(limit)
            replay(program)

        child, lines = forked(work)
        lines.close()
        return ended_by(child) == name

    def work(write):
        signal.alarm(limit)
        traced(seed, write)

    child, lines = forked(work)
    with lines:
        written = [json.loads(line) for line in lines]
    if ended_by(child) == name and written[-1][-1] == "torch":
        return "crashes of PyTorch", None
    return "different", Finding.of_crash(seed, name, written, dies)


def main():
    parser = argparse.ArgumentParser(prog="tools/fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--limit", type=int, default=30, help="seconds for a program")
    parser.add_argument("--facts", nargs="*", help="count differences in these alone, and signals")
    parser.add_argument("--brief", action="store_true", help="leave the programs out")
    parser.add_argument("--stop", type=int, default=1000, help="after so many findings")
    options = parser.parse_args()
    start()
    began, verdicts, found = time.perf_counter(), Counter(), 0
    seeds = range(options.seed, options.seed + options.programs)
    for _, verdict, finding in survey(seeds, options.limit):
        verdicts[verdict] += 1
        if finding and (not options.facts or finding.fact in [*options.facts, "signal"]):
            found += 1
            print(finding.brief() if options.brief else finding, flush=True)
            if found >= options.stop:
                break
    took = time.perf_counter() - began
    summary = ", ".join(f"{count} {name}" for name, count in sorted(verdicts.items()))
    print(f"{sum(verdicts.values())} programs in {took:.0f} s: {summary}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
