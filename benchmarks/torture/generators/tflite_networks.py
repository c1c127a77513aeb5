"""Random TFLite networks of our own writer: branches, residuals, broadcasts, extreme scales."""

from __future__ import annotations

from benchmarks.operators.networks import draw_network
from benchmarks.torture.case import Case, Generator, target_of
from benchmarks.torture.tflite_judge import judge

NEEDS = ("tflite_micro",)


def draw(seed: int) -> Case:
    """The network of a seed."""
    return Case(draw_network(seed, 0).tflite(), ".tflite", judge, target=target_of(seed))


GENERATOR = Generator("tflite-networks", draw, NEEDS)
