"""Torture: random and damaged models of every generator, side by side, with fresh seeds.

    python -m benchmarks.torture --hours 8 -o torture
    python -m benchmarks.torture --minutes 10
    python -m benchmarks.torture --generator onnx-grammar --seed 17 --count 1
    python -m benchmarks.torture --generator tflite-mutants --replay FILE

Each generator (`benchmarks/torture/generators`) draws models; other runtimes judge what penstock
makes of them, within limits on time and memory.  A finding is made small by delta debugging and
written to the output folder, with a test to paste; `log.jsonl` there gets a line for each, and one
with the counts after each turn.  A generator that is named twice has twice as many turns.  Exits
with 1 if there is a finding.  Generators whose packages are missing are named and skipped; the
extra `torture` has all.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.mutations import SUFFIXES
from benchmarks.torture.case import Generator, Outcome
from benchmarks.torture.judging import verdict_on
from benchmarks.torture.log import Log
from benchmarks.torture.registry import every_generator
from benchmarks.torture.run import Plan, Run, Tally

MOST_REFUSALS = 40
FOREVER = 10 * 365 * 86400.0


def main(arguments: Sequence[str]) -> int:
    """Returns 1 if there is a finding."""
    every = every_generator()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=__doc__)
    parser.add_argument("--generator", action="append", choices=list(every), metavar="NAME")
    parser.add_argument("--hours", type=float, help="how long")
    parser.add_argument("--minutes", type=float, help="how long")
    parser.add_argument("--count", type=int, help="so many seeds of each generator")
    parser.add_argument("--seed", type=int, help="the first seed (default: drawn)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--as-drawn", action="store_true", help="do not make findings small")
    parser.add_argument("-o", type=Path, default=Path("torture-findings"), metavar="FOLDER")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="judge this file, here")
    chosen = parser.parse_args(arguments)
    if chosen.replay is not None:
        if len(chosen.generator or ()) != 1:
            parser.error("--replay needs one --generator, whose judge it asks")
        return _replayed(every[chosen.generator[0]], chosen.replay)
    wanted = [every[name] for name in chosen.generator or every]
    for generator in wanted:
        if generator.missing:
            print(f"{generator.name}: skipped, needs {', '.join(generator.missing)}")
    present = [generator for generator in wanted if not generator.missing]
    seed = random.SystemRandom().randrange(10**9) if chosen.seed is None else chosen.seed
    plan = Plan(present, seed, _seconds(chosen), chosen.count, chosen.workers, not chosen.as_drawn)
    print(f"seeds from {seed} on", flush=True)
    log = Log(chosen.o)
    run = Run(plan, log.add, partial(log.count, seed))
    try:
        run.finish()
    finally:
        show(run.tallies)
    return int(log.findings > 0)


def _replayed(generator: Generator, path: Path) -> int:
    """Prints the verdict on a file by the judge of a generator; returns 1 if it is a finding."""
    case = next(case for seed in itertools.count() if (case := generator.draw(seed)) is not None)
    suffix = next((s for s in SUFFIXES if path.name.endswith(s)), path.suffix)
    verdict = verdict_on(replace(case, raw=path.read_bytes(), suffix=suffix), deep=True)
    print(f"{verdict.outcome.value} {verdict.code}\n{verdict.note}")
    return int(not verdict.outcome.right)


def _seconds(chosen: argparse.Namespace) -> float:
    """How long to run; for ever if only a number of seeds is given."""
    if chosen.hours is None and chosen.minutes is None:
        return FOREVER if chosen.count else 600.0
    return 3600 * (chosen.hours or 0.0) + 60 * (chosen.minutes or 0.0)


def show(tallies: Mapping[str, Tally]) -> None:
    """Prints outcomes by generator, refusals by cause, and the share that compiles."""
    table = Table("generator", "models", *(o.value for o in Outcome), "seconds", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, tally in tallies.items():
        counts = (f"{tally.outcomes[outcome]:,}" for outcome in Outcome)
        table.add_row(name, f"{tally.models:,}", *counts, f"{tally.seconds:,.0f}")
    console().print(table)
    refusals = Table("refused", "because", box=None)
    total = sum((t.refusals for t in tallies.values()), start=Counter[str]())
    for cause, count in total.most_common(MOST_REFUSALS):
        refusals.add_row(f"{count:,}", cause)
    console().print(refusals)
    for name, tally in tallies.items():
        if (count := tally.shared.total()) > 0:
            share = 100 * tally.shared[True] / count
            print(f"{name}: {share:.1f} % of {count:,} networks compile")


if __name__ == "__main__":
    entry(main)
