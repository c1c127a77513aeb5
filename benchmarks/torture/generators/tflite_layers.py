"""Random single TFLite operators of one family, side by side in a file, each judged alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.operators import families
from benchmarks.operators.drawing import Array, Drawn
from benchmarks.operators.judging import evaluated, side_by_side
from benchmarks.torture.case import Case, Generator, Verdict, target_of
from benchmarks.torture.compiling import ladder_verdict, refusal
from benchmarks.torture.tflite_judge import operators_verdict, values_of
from penstock import api
from penstock.errors import PenstockError
from penstock.pipeline.compilation import compile_request
from penstock.scheduling.options import Options

AT_ONCE = 20
IN_ORDER = Options(order="file", order_states=1)
"""Layers that share nothing have no better order, and the search for it takes most of the time."""
OperatorsVerdict = Callable[[bytes, Mapping[str, Array]], tuple[Verdict | None, bool]]


def draw(seed: int) -> Case | None:
    """The operators of a seed that are supported; consecutive seeds take turns of families and
    targets."""
    names = tuple(families.FAMILIES)
    turn, number = divmod(seed, len(names))
    name = names[number]
    every = (families.draw(name, seed, k) for k in range(AT_ONCE))
    kept = [drawn for drawn in every if is_supported(drawn)]
    if not kept:
        return None
    raw, target = side_by_side(kept).tflite(), target_of(seed + turn)
    return Case(raw, ".tflite", judge, len(kept), target=target)


def is_supported(drawn: Drawn) -> bool:
    """Whether penstock takes the model."""
    try:
        evaluated(drawn)
    except PenstockError:
        return False
    return True


def judge(case: Case, deep: bool, operators: OperatorsVerdict = operators_verdict) -> Verdict:
    """The verdict on operators that share nothing: each by itself, then compiled together, without
    the plans of other options."""
    with tempfile.TemporaryDirectory(prefix="penstock-torture-") as folder:
        path = Path(folder) / f"layers{case.suffix}"
        path.write_bytes(case.raw)
        try:
            done = compile_request(api.request(path, case.target, options=IN_ORDER))
            sets = api.drawn_sets(done, 1)
            wrong, _ = operators(case.raw, values_of(done, sets[0]))
            return wrong or ladder_verdict(done, sets, deep)
        except PenstockError as error:
            return refusal(error)


GENERATOR = Generator("tflite-layers", draw, ("tflite_micro",))
