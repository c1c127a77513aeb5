"""Random TFLite operators on uint8, as in networks of TensorFlow 1, judged by TensorFlow.

Fully connected layers are left out: TensorFlow from 2.20 on rounds them otherwise than TensorFlow
Lite Micro and earlier versions (`benchmarks/operators/unsigned.py`).
"""

from __future__ import annotations

from benchmarks.operators.judging import side_by_side
from benchmarks.operators.unsigned import UNSIGNED_FAMILIES, models
from benchmarks.torture.case import Case, Generator, Verdict, target_of
from benchmarks.torture.generators import tflite_layers
from benchmarks.torture.tflite_judge import tensorflow_verdict

AT_ONCE = 20
FAMILIES = tuple(name for name in UNSIGNED_FAMILIES if name != "FULLY_CONNECTED")


def draw(seed: int) -> Case | None:
    """The operators of a seed that are supported; consecutive seeds take turns of families and
    targets."""
    turn, number = divmod(seed, len(FAMILIES))
    kept = [
        drawn
        for drawn in models(FAMILIES[number], AT_ONCE, seed)
        if tflite_layers.is_supported(drawn)
    ]
    if not kept:
        return None
    return Case(
        side_by_side(kept).tflite(), ".tflite", judge, len(kept), target=target_of(seed + turn)
    )


def judge(case: Case, deep: bool) -> Verdict:
    """The verdict on operators that share nothing."""
    return tflite_layers.judge(case, deep, tensorflow_verdict)


GENERATOR = Generator("tflite-unsigned", draw, ("tensorflow",))
