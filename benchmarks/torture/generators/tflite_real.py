"""Random TFLite operators on float32, judged by TensorFlow Lite Micro or TensorFlow."""

from __future__ import annotations

from benchmarks.operators.judging import side_by_side
from benchmarks.operators.real import REAL_FAMILIES, models
from benchmarks.torture.case import Case, Generator, target_of
from benchmarks.torture.generators import tflite_layers

AT_ONCE = 20


def draw(seed: int) -> Case | None:
    """The operators of a seed that are supported; consecutive seeds take turns of families and
    targets."""
    turn, number = divmod(seed, len(REAL_FAMILIES))
    family = REAL_FAMILIES[number]
    kept = [each for each in models(family, AT_ONCE, seed) if tflite_layers.is_supported(each)]
    if not kept:
        return None
    raw = side_by_side(kept).tflite()
    return Case(raw, ".tflite", tflite_layers.judge, len(kept), target=target_of(seed + turn))


GENERATOR = Generator("tflite-real", draw, ("tflite_micro",))
