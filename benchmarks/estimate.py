"""Estimate: fits the cost model's figures to simulated cycles of every layer.

    python -m benchmarks.estimate [--models FOLDER | --zoo]

    cycles of a layer = macs * cycles_per_mac + elements * cycles_per_element
                        + loops * cycles_per_loop + cycles_per_call

The fit is the non-negative one of least squares, where the cycles of a layer are measured by those
of the mean layer of its network: so a layer of a small network says as much as one of a large one.
Of the weightings that were tried, its totals are nearest: relative errors a layer, or shares of a
network, pull the figures towards layers that are cheap.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.entry import console, entry, first_line
from benchmarks.figures import MAX_SIMULATED_MACS, TARGET, ZOO
from benchmarks.shared import find_shared
from penstock import api
from penstock.errors import PenstockError, UsageError
from penstock.ir.region import Region

FIGURES = ("cycles_per_mac", "cycles_per_element", "cycles_per_loop", "cycles_per_call")
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The layers of one network: work (layers, 4) and simulated cycles (layers,); and what the
    target's present figures estimate for all of them."""

    model: str
    work: Matrix
    cycles: Matrix
    estimated: int


def main(arguments: Sequence[str]) -> int:
    """Prints the fit, to be written into the target's file, and the error on every network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimate", description=__doc__)
    parser.add_argument("--models", type=Path, help="folder of models")
    parser.add_argument("--zoo", action="store_true", help="fit to the zoo, without shared models")
    wanted = parser.parse_args(arguments)
    models = ZOO if wanted.zoo else map(str, find_shared(wanted.models).networks())
    samples = [sample for sample in map(_sample, models) if sample is not None]
    if not samples:
        raise UsageError("bench-004", "there is no network to fit to", help="name --models FOLDER")
    fit = fitted(
        np.concatenate([s.work / s.cycles.mean() for s in samples]),
        np.concatenate([s.cycles / s.cycles.mean() for s in samples]),
    )
    out = console()
    out.print(_table(samples, fit))
    for name, value in zip(FIGURES, fit, strict=True):
        out.print(f"{name} = {value:.1f}")
    return 0


def fitted(work: Matrix, cycles: Matrix) -> Matrix:
    """The non-negative x that makes |work x - cycles| least.  With so few figures, every choice
    of those that are not zero can be tried.

    >>> work = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> fitted(work, np.array([3.0, 1.0, -4.0])).round(9).tolist()
    [2.0, 0.0]
    """
    count = work.shape[1]
    best, least = np.zeros(count), float(np.sum(cycles**2))
    for size in range(1, count + 1):
        for chosen in map(list, combinations(range(count), size)):
            x = np.zeros(count)
            x[chosen] = np.linalg.lstsq(work[:, chosen], cycles, rcond=None)[0]
            error = float(np.sum((work @ x - cycles) ** 2))
            if x.min() >= 0.0 and error < least:
                best, least = x, error
    return best


def _sample(model: str) -> Sample | None:
    """The layers of a network; nothing where it is not taken or too large to simulate."""
    try:
        compiled = api.compile(model, TARGET)
        if compiled.report.macs.executed > MAX_SIMULATED_MACS:
            return None
        ran = api.run(compiled.compilation.request)
    except PenstockError as error:
        print(f"not taken: {model}: {first_line(error)}", file=sys.stderr)
        return None
    rows: list[tuple[int, int, int, int]] = []
    for part in compiled.compilation.schedule.steps:
        node = part.nodes[-1]
        work = node.op.work(node.site, Region.whole(part.output.type.shape))
        rows.append((work.macs, work.elements, work.loops, 1))
    cycles = np.array([step.cycles for step in ran.steps], float)
    name = compiled.report.model
    return Sample(name, np.array(rows, float), cycles, compiled.report.cycles.estimated)


def _table(samples: Sequence[Sample], fit: Matrix) -> Table:
    table = Table(title=f"simulated and estimated cycles on {TARGET}")
    table.add_column("model", no_wrap=True)
    for heading in ("layers", "simulated", "now", "error", "by the fit", "error", "worst layer"):
        table.add_column(heading, justify="right")
    for s in samples:
        total, by_layer = s.cycles.sum(), s.work @ fit
        errors = (by_layer - s.cycles) / s.cycles
        worst = errors[np.argmax(np.abs(by_layer - s.cycles))]
        table.add_row(
            s.model,
            str(len(s.cycles)),
            f"{total:,.0f}",
            f"{s.estimated:,}",
            f"{s.estimated / total - 1:+.1%}",
            f"{by_layer.sum():,.0f}",
            f"{by_layer.sum() / total - 1:+.1%}",
            f"{worst:+.0%}",
        )
    return table


if __name__ == "__main__":
    entry(main)
