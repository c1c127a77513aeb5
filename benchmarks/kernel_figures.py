"""Kernel figures: fits the cycles of every part of every kernel to random layers.

    python -m benchmarks.kernel_figures [--target NAME ...] [--kernel NAME ... | --missing]
        [--mixture int8|plain|real|recurrent|joined|channels|unsigned|integers ...]
        [--seeds COUNT] [--write]

Random layers of every kind run on the simulated core, each whole: by the kernels that are chosen
for them, by those that need no scratch, and by portable ones. The layers of the mixture `int8` are
on int8 tensors; those of `plain` on plain numbers and int16, and conversions; those of `real` are
layers of float32 with weights, and pools; those of `recurrent` are recurrent layers on real
numbers; those of `joined` are concatenations; those of `channels` pad, slice, pack and unpack
channels; those of `unsigned` are of uint8 networks, those of `integers` of networks of integers.
What a layer takes is linear in how often the parts of its kernel run
(`backends/cores/family.py`); the figures are the non-negative ones of least relative
squares. Prints the error of the fit; `--write` writes `figures.toml` of the core family, with
`--kernel` or `--mixture` only the figures of these kernels, with `--missing` only of kernels that
have none. `benchmarks.estimate` judges the figures on layers of other seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

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
from benchmarks.random_layers import MIXTURES
from benchmarks.shared import REPOSITORY
from penstock.backends.cores.family import ASSEMBLY_CYCLES, CycleModel, core_family
from penstock.errors import PenstockError
from penstock.hardware.load import load_target

TARGETS = ("cortex-m4", "cortex-m0plus", "cortex-m55")
COUNT_INSTRUCTIONS = ("cortex-m55",)
"""Targets whose simulated core counts instructions, not cycles."""
SEEDS = 40
CORES = REPOSITORY / "src" / "penstock" / "backends" / "cores"
HEADER = """\
# Cycles of each part of a kernel, by kernel and part.  Written by:
# python -m benchmarks.kernel_figures --write

"""
SERVED = (chosen, chosen, without_scratch, in_portable_c)
"""By which kernels layers run, in turn."""
SWEEPS = 20_000
Matrix = NDArray[np.float64]
Fit = tuple[Mapping[str, float], Matrix]


def main(arguments: Sequence[str]) -> int:
    """Prints the errors of the fit, and writes the figures if asked to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernel_figures", description=__doc__
    )
    parser.add_argument("--target", action="append", help="only this target; repeatable")
    kernels = parser.add_mutually_exclusive_group()
    kernels.add_argument("--kernel", action="append", help="only this kernel; repeatable")
    kernels.add_argument("--missing", action="store_true", help="only kernels without figures")
    parser.add_argument(
        "--mixture", action="append", choices=MIXTURES, help="only these layers; repeatable"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many of each kind")
    parser.add_argument("--write", action="store_true", help="write figures.toml")
    wanted = parser.parse_args(arguments)
    for target in wanted.target or TARGETS:
        engine = load_target(target).engines[0]
        model = core_family(engine.kernels).cycle_model
        assert model is not None, f"{target} has no cycle model"
        mixtures = wanted.mixture or list(MIXTURES)

        def is_wanted(kernel: str, known: Mapping[str, object] = model.figures) -> bool:
            return kernel not in known if wanted.missing else kernel in (wanted.kernel or [kernel])

        measured = (
            one for name in mixtures for one in drawn(target, name, wanted.seeds, is_wanted)
        )
        fits = fitted(
            measured, engine.cycles_per_call, model, weighs_assembly=target in COUNT_INSTRUCTIONS
        )
        console().print(_table(target, fits))
        if wanted.write:
            is_part = wanted.kernel or wanted.missing or wanted.mixture
            kept = model.figures if is_part else {}
            found = {**kept, **{kernel: figures for kernel, (figures, _) in fits.items()}}
            path = CORES / engine.kernels / "figures.toml"
            path.write_text(HEADER + "".join(_lines(found)), "utf-8")
    return 0


def drawn(
    target: str, mixture: str, seeds: int, is_wanted: Callable[[str], bool]
) -> Iterator[Measured]:
    """Layers of a mixture on the core, whose kernels are wanted, by their names."""
    for seed in range(seeds):
        print(f"{target}: {mixture} mixture {seed + 1} of {seeds}", file=sys.stderr)
        try:
            done = compiled(MIXTURES[mixture](seed), target, WHOLE, SERVED[seed % len(SERVED)])
            if any(is_wanted(part.kernel.name) for part in done.schedule.steps):
                yield from (one for one in layers(done, run(done)) if is_wanted(one.kernel.name))
        except PenstockError as error:
            print(f"{mixture} mixture {seed} is left out: {first_line(error)}", file=sys.stderr)


def fitted(
    measured: Iterable[Measured],
    call_cycles: float,
    model: CycleModel,
    *,
    weighs_assembly: bool = False,
) -> Mapping[str, Fit]:
    """By kernel: figures by part, and estimated / simulated of every layer.

    weighs_assembly: whether the cycles of loops in assembly have a fitted weight."""
    by_kernel: dict[str, list[Measured]] = defaultdict(list)
    for one in measured:
        by_kernel[one.kernel.name].append(one)
    fits = {k: _fit(some, call_cycles, model, weighs_assembly) for k, some in by_kernel.items()}
    return {kernel: fit for kernel, fit in fits.items() if fit is not None}


def _fit(
    some: Sequence[Measured], call_cycles: float, model: CycleModel, weighs_assembly: bool
) -> Fit | None:
    """The figures of a kernel; None where it knows itself what it takes."""
    rows: list[Mapping[str, float]] = []
    for one in some:
        counts = model.counts(one.op, one.site, one.kernel)
        if counts is None:
            return None
        rows.append(counts)
    odd = [_odd(one, model) for one in some]
    if weighs_assembly:
        fixed, known = set[str](), [0.0] * len(some)
        rows = [
            {**row, ASSEMBLY_CYCLES: row[ASSEMBLY_CYCLES] + more} if ASSEMBLY_CYCLES in row else row
            for row, more in zip(rows, odd, strict=True)
        ]
    else:
        fixed = {ASSEMBLY_CYCLES}
        known = [row.get(ASSEMBLY_CYCLES, 0) + more for row, more in zip(rows, odd, strict=True)]
    parts = sorted({part for row in rows for part, count in row.items() if count} - fixed)
    simulated = np.array([one.simulated for one in some], float)
    counted = np.array(known, float) + call_cycles
    work = np.array([[row.get(part, 0) for part in parts] for row in rows], float)
    figures = non_negative(work / simulated[:, None], 1 - counted / simulated)
    named = {part: round(float(x), 2) for part, x in zip(parts, figures, strict=True)}
    return named, (work @ figures + counted) / simulated


def _odd(one: Measured, model: CycleModel) -> int:
    """Cycles of a pixel that runs alone."""
    pixels = one.site.output.elements // one.site.output.shape[-1]
    return model.odd_cycles(one.kernel) * (pixels % 2)


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


def _lines(found: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """The lines of the file, after its header."""
    for kernel, figures in sorted(found.items()):
        inside = ", ".join(f'"{part}" = {value:g}' for part, value in figures.items())
        yield f"{kernel} = {{ {inside} }}\n"


def _table(target: str, fits: Mapping[str, Fit]) -> Table:
    table = Table(title=f"estimated / simulated on {target}, of the layers that were fitted to")
    table.add_column("kernel", no_wrap=True)
    for heading in ("layers", "least", "10 %", "median", "90 %", "most"):
        table.add_column(heading, justify="right")
    for kernel, (_, ratios) in sorted(fits.items()):
        quantiles = np.quantile(ratios, (0, 0.1, 0.5, 0.9, 1))
        table.add_row(kernel, str(len(ratios)), *(f"{q:.3f}" for q in quantiles))
    return table


if __name__ == "__main__":
    entry(main)
