"""Random one-operator TFLite models against TensorFlow Lite Micro, element by element.

    python -m benchmarks.random_operators [--family NAME ...] [--count 1000] [--seed 0] [--c 20]
    python -m benchmarks.random_operators --show NAME NUMBER [--seed 0]

A family is a TFLite operator; its models have random shapes, options, operands, scales and zero
points (`benchmarks/operators`). The operators' own arithmetic is compared with TensorFlow Lite
Micro. `--c` agreeing models of each family are then compiled together, and the generated C runs on
the host under sanitizers. Exits with 1 if an element differs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.operators.drawing import Array, Drawn
from benchmarks.operators.families import FAMILIES, draw
from benchmarks.operators.judging import Outcome, Verdict, first_difference, judge, side_by_side
from benchmarks.operators.reference import Reference
from penstock import api
from penstock.execution import run_on_host

JUDGED = (Outcome.AGREES, Outcome.DEVIATES)
COMPILED_AT_ONCE = 10
MOST_REASONS = 3


def in_c(models: Sequence[tuple[Drawn, Verdict]]) -> str:
    """The first difference of the generated C, for all models compiled as one; empty if none."""
    whole = side_by_side([drawn for drawn, _ in models])
    expected = [output for _, verdict in models for output in verdict.outputs]
    with tempfile.TemporaryDirectory(prefix="penstock-operators-") as folder:
        path = Path(folder) / "operators.tflite"
        path.write_bytes(whole.tflite())
        done = api.compile(path).compilation
    names = [value.name for value in done.model.inputs]
    inputs = dict(zip(names, whole.values, strict=True))
    (tensors,) = run_on_host(done, [inputs]).tensors
    found: list[Array] = []
    for value in done.model.outputs:
        data = value.data
        found.append(tensors[value.name] if data is None else data.array(value.type))
    return first_difference(found, expected)


class Tally:
    """Outcomes of a family, and reasons of those without a comparison."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.counts: Counter[Outcome] = Counter()
        self.telling = 0
        self.compiled = 0
        self.findings: list[str] = []
        self.reasons: Counter[str] = Counter()

    def add(self, number: int, drawn: Drawn, verdict: Verdict) -> None:
        self.counts[verdict.outcome] += 1
        self.telling += verdict.is_telling
        if verdict.outcome is Outcome.MISMATCH:
            self.findings.append(f"model {number}: {verdict.note}\n    {drawn.describe()}")
        elif verdict.outcome not in JUDGED:
            words = " ".join(w for w in verdict.note.split() if not any(c.isdigit() for c in w))
            self.reasons[f"{verdict.outcome.value}: {words}"] += 1

    def row(self) -> list[str]:
        counted = (f"{self.counts[outcome]:,}" for outcome in Outcome)
        return [self.family, *counted, f"{self.telling:,}", f"{self.compiled:,}"]


def tally(family: str, seed: int, count: int, in_c_count: int, reference: Reference) -> Tally:
    """Judges every model of a family, and compiles some of the agreeing ones."""
    found = Tally(family)
    kept: list[tuple[Drawn, Verdict]] = []
    for number in range(count):
        drawn = draw(family, seed, number)
        verdict = judge(drawn, reference)
        found.add(number, drawn, verdict)
        if verdict.outcome in JUDGED and len(kept) < in_c_count:
            kept.append((drawn, verdict))
    for first in range(0, len(kept), COMPILED_AT_ONCE):
        models = kept[first : first + COMPILED_AT_ONCE]
        difference = in_c(models)
        found.compiled += len(models)
        if difference:
            found.findings.append(f"generated C, models {first} and on: {difference}")
    return found


def show(family: str, seed: int, number: int) -> int:
    """Prints a model and its verdict."""
    drawn = draw(family, seed, number)
    with Reference() as reference:
        verdict = judge(drawn, reference)
    print(f"{drawn.describe()}\n{verdict.outcome.value} {verdict.note}".rstrip())
    return int(verdict.outcome is Outcome.MISMATCH)


def main(arguments: Sequence[str]) -> int:
    """Returns 1 if an element differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_operators")
    parser.add_argument("--family", action="append", choices=list(FAMILIES), metavar="NAME")
    parser.add_argument("--count", type=int, default=1000, help="models of each family")
    parser.add_argument("--seed", type=int, default=0, help="other models")
    parser.add_argument("--c", type=int, default=20, help="models of each family to run in C")
    parser.add_argument("--show", nargs=2, metavar=("NAME", "NUMBER"), help="one model only")
    chosen = parser.parse_args(arguments)
    if chosen.show:
        return show(chosen.show[0], chosen.seed, int(chosen.show[1]))
    table = Table("family", *(o.value for o in Outcome), "not constant", "in C", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    findings = 0
    with Reference() as reference:
        for family in chosen.family or FAMILIES:
            found = tally(family, chosen.seed, chosen.count, chosen.c, reference)
            table.add_row(*found.row())
            findings += len(found.findings)
            for finding in found.findings:
                print(f"{family}, {finding}", flush=True)
            for reason, times in found.reasons.most_common(MOST_REASONS):
                print(f"{family}, {times} models, {reason}", flush=True)
    console().print(table)
    print(f"{findings} mismatches")
    return int(findings > 0)


if __name__ == "__main__":
    entry(main)
