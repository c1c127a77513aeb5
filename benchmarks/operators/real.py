"""float32 models: drawn int8 models on real numbers, judged by TensorFlow Lite Micro.

    python -m benchmarks.operators.real [--family NAME ...] [--count N] [--seed S]

Every quantised tensor of a drawn model becomes float32.  Values are normal, of any magnitude, or
have infinities, NaN, signed zeros and denormal numbers among them.  Prints what came of the models
of each family.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.entry import entry
from benchmarks.operators.drawing import Array, Drawn, Shape
from benchmarks.operators.families import FAMILIES, draw
from benchmarks.operators.judging import Outcome, judge
from benchmarks.operators.reference import Reference, tflite_micro
from tools.tflite_writer import TensorSpec

ARENA_BYTES = 32 << 20
COUNT = 20
SPECIAL = (np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-40, -1e-45, 3e38, -3e38)
NOT_REAL = ("QUANTIZE", "DEQUANTIZE", "SPACE_TO_BATCH_ND")
"""Conversions; and TensorFlow Lite Micro pads batches of real numbers with uninitialised bytes."""
REAL_FAMILIES = tuple(
    name for name in FAMILIES if "(plain)" not in name and name.split()[0] not in NOT_REAL
)


def as_real(drawn: Drawn, seed: int) -> Drawn:
    """The model with float32 in place of quantised elements."""
    rng = np.random.default_rng(seed)
    # What a maximum of NaN is, TensorFlow's kernels do not agree on.
    kinds = ("normal", "normal", "wide", "special")[: 3 if "REDUCE" in drawn.operator.name else 4]
    kind = kinds[rng.integers(len(kinds))]

    def real(spec: TensorSpec) -> TensorSpec:
        if not spec.scales:
            return spec
        data = None if spec.data is None else _numbers(rng, spec.shape, "normal")
        return replace(spec, dtype="float32", scales=(), zero_points=(), data=data)

    values = (
        _numbers(rng, x.shape, kind) if drawn.tensors[k].scales else x
        for k, x in zip(drawn.inputs, drawn.values, strict=True)
    )
    return replace(drawn, tensors=tuple(map(real, drawn.tensors)), values=tuple(values))


def _numbers(rng: np.random.Generator, shape: Shape, kind: str) -> Array:
    found = rng.normal(0, 2, shape).astype(np.float32)
    if kind == "wide":
        found *= np.float32(2) ** rng.uniform(-40, 40, shape).astype(np.float32)
    if kind == "special":
        found = np.where(rng.random(shape) < 0.1, rng.choice(SPECIAL, shape), found)
    return found.astype(np.float32)


def models(family: str, count: int, seed: int = 0) -> Iterator[Drawn]:
    """Models of a family whose result is real or is computed from real numbers."""
    for number in range(count):
        drawn = draw(family, seed, number)
        if any(spec.scales for spec in drawn.tensors):
            yield as_real(drawn, seed + number)


def main(arguments: Sequence[str]) -> int:
    """Judges models of each family."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operators.real", description=__doc__
    )
    parser.add_argument("--family", action="append", choices=REAL_FAMILIES, help="only this one")
    parser.add_argument("--count", type=int, default=COUNT, help="models of each family")
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args(arguments)
    reference, wrong = Reference(tflite_micro(ARENA_BYTES)), 0
    for family in wanted.family or REAL_FAMILIES:
        outcomes: Counter[str] = Counter()
        for number, drawn in enumerate(models(family, wanted.count, wanted.seed)):
            verdict = judge(drawn, reference)
            refused = verdict.outcome in (Outcome.PENSTOCK_REFUSES, Outcome.REFERENCE_REFUSES)
            outcomes[verdict.outcome.value + (f": {verdict.note}" if refused else "")] += 1
            if verdict.outcome is Outcome.MISMATCH:
                wrong += 1
                print(f"  {number}: {drawn.describe()}\n     {verdict.note}")
        for outcome, count in outcomes.most_common():
            print(f"{family}: {count} {outcome}")
    return int(wrong > 0)


if __name__ == "__main__":
    entry(main)
