"""Kernel figures: fits the cycles of every part of every kernel to random layers.

    python -m benchmarks.kernel_figures [--target NAME ...] [--seeds COUNT] [--write]

Random layers of every kind run on the simulated core, each whole: side by side, kinds that share no
kernel, so that compilers specialise kernels; several of a kind, so that they do not; by kernels
that need no scratch, and by portable ones.  What a layer takes is linear in how often the parts of
its kernel run (`cortex_m/counts.py`); the figures are the non-negative ones of least relative
squares.  Prints the error of the fit; `--write` writes `cortex_m/figures.toml`.
`benchmarks.estimate` judges the figures on layers of other seeds.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from benchmarks import random_layers
from benchmarks.entry import console, entry, first_line
from benchmarks.measured import (
    WHOLE,
    Measured,
    chosen,
    compiled,
    in_portable_c,
    layers,
    run,
    without_scratch,
)
from benchmarks.shared import REPOSITORY
from penstock.backends.cortex_m.dsp_counts import odd_cycles
from penstock.backends.cortex_m.figures import COUNTED, ODD, counts_of
from penstock.errors import PenstockError
from penstock.hardware.load import load_target

TARGETS = ("cortex-m4", "cortex-m0plus", "cortex-m55")
SEEDS = 40
FILE = REPOSITORY / "src" / "penstock" / "backends" / "cortex_m" / "figures.toml"
HEADER = """\
# Cycles of the parts of kernels (counts.py), by the `kernels` of an engine: alone, where one layer
# of a network calls the kernel, and shared.  Written by:
# python -m benchmarks.kernel_figures --write
"""
SERVED = (chosen, chosen, without_scratch, in_portable_c)
"""By which kernels layers run, in turn."""
PULL = 0.1
"""How much figures alone are pulled towards shared ones: as by a layer that is as much wrong, for a
figure twice as large."""
SWEEPS = 20_000
Matrix = NDArray[np.float64]
Fit = tuple[Mapping[str, float], Matrix]


def main(arguments: Sequence[str]) -> int:
    """Prints the errors of the fit, and writes the figures if asked to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernel_figures", description=__doc__
    )
    parser.add_argument("--target", action="append", help="only this target; repeatable")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many of each kind")
    parser.add_argument("--write", action="store_true", help="write figures.toml")
    wanted = parser.parse_args(arguments)
    found = tomllib.loads(FILE.read_text("utf-8"))
    for target in wanted.target or TARGETS:
        engine = load_target(target).engines[0]
        fits = fitted(drawn(target, wanted.seeds), engine.cycles_per_call)
        console().print(_table(target, fits))
        found[engine.kernels] = {
            kernel: {way: figures for way, (figures, _) in ways.items()}
            for kernel, ways in sorted(fits.items())
        }
    if wanted.write:
        FILE.write_text(HEADER + "".join(_lines(found)), "utf-8")
    return 0


def drawn(target: str, seeds: int) -> Iterator[Measured]:
    """Layers on the core."""
    for seed in range(seeds):
        print(f"{target}: mixture {seed + 1} of {seeds}", file=sys.stderr)
        try:
            done = compiled(
                random_layers.mixture(seed), target, WHOLE, SERVED[seed // 2 % len(SERVED)]
            )
            yield from layers(done, run(done))
        except PenstockError as error:
            print(f"mixture {seed} is left out: {first_line(error)}", file=sys.stderr)


def fitted(measured: Iterable[Measured], call_cycles: float) -> Mapping[str, Mapping[str, Fit]]:
    """By kernel, alone and shared: figures by part, and estimated / simulated of every layer."""
    by_kernel: dict[str, list[Measured]] = defaultdict(list)
    for one in measured:
        by_kernel[one.kernel.name].append(one)
    found: dict[str, dict[str, Fit]] = {}
    for kernel, every in by_kernel.items():
        shared = [one for one in every if not one.alone]
        alone = [one for one in every if one.alone]
        first = _fit(shared or every, call_cycles, {})
        if first is not None:
            second = _fit(alone, call_cycles, first[0]) if alone else first
            found[kernel] = {"shared": first, "alone": second or first}
    return found


def _fit(some: Sequence[Measured], call_cycles: float, near: Mapping[str, float]) -> Fit | None:
    """Figures, near those that are given where measurements say little; None where the kernel knows
    itself what it takes."""
    rows: list[Mapping[str, float]] = []
    for one in some:
        counts = counts_of(one.op, one.site, one.kernel)
        if counts is None:
            return None
        rows.append(counts)
    parts = sorted({part for row in rows for part, count in row.items() if count} - {COUNTED})
    simulated = np.array([one.simulated for one in some], float)
    counted = np.array(
        [row.get(COUNTED, 0) + _odd(one) for row, one in zip(rows, some, strict=True)], float
    )
    counted += call_cycles
    work = np.array([[row.get(part, 0) for part in parts] for row in rows], float)
    before = np.array([near.get(part, 0.0) for part in parts])
    known = before > 0
    pull = np.diag(np.divide(PULL, before, out=np.zeros(len(parts)), where=known))
    left = np.vstack([work / simulated[:, None], pull])
    figures = non_negative(left, np.concatenate([1 - counted / simulated, PULL * known]))
    named = {part: round(float(x), 2) for part, x in zip(parts, figures, strict=True)}
    rest = {part: x for part, x in near.items() if part not in named}
    return {**rest, **named}, (work @ figures + counted) / simulated


def _odd(one: Measured) -> int:
    """Cycles of a pixel that runs alone."""
    pixels = one.site.output.elements // one.site.output.shape[-1]
    return odd_cycles(one.kernel) if one.kernel.name == ODD and pixels % 2 else 0


def non_negative(work: Matrix, cycles: Matrix) -> Matrix:
    """The non-negative x that makes |work x - cycles| least, one coordinate after the other.

    >>> work = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> non_negative(work, np.array([3.0, 1.0, -4.0])).round(6).tolist()
    [2.0, 0.0]
    """
    products, goal = work.T @ work, work.T @ cycles
    x = np.zeros(work.shape[1])
    for _ in range(SWEEPS):
        before = x.copy()
        for k, norm in enumerate(np.diag(products)):
            if norm > 0:
                x[k] = max(0.0, x[k] + (goal[k] - products[k] @ x) / norm)
        if np.abs(x - before).max() < 1e-7:
            break
    return x


def _lines(found: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]) -> Iterator[str]:
    """The file's lines behind its header."""
    for family, kernels in sorted(found.items()):
        for kernel, ways in kernels.items():
            yield f"\n[{family}.{kernel}]\n"
            for way, figures in sorted(ways.items()):
                inside = ", ".join(f'"{part}" = {value:g}' for part, value in figures.items())
                yield f"{way} = {{ {inside} }}\n"


def _table(target: str, fits: Mapping[str, Mapping[str, Fit]]) -> Table:
    table = Table(title=f"estimated / simulated on {target}, of the layers that were fitted to")
    table.add_column("kernel", no_wrap=True)
    for heading in ("", "layers", "least", "10 %", "median", "90 %", "most"):
        table.add_column(heading, justify="right")
    for kernel, ways in sorted(fits.items()):
        for way, (_, ratios) in ways.items():
            quantiles = np.quantile(ratios, (0, 0.1, 0.5, 0.9, 1))
            table.add_row(kernel, way, str(len(ratios)), *(f"{q:.3f}" for q in quantiles))
    return table


if __name__ == "__main__":
    entry(main)
