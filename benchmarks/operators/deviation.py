"""Deviation: a documented difference from TensorFlow Lite Micro, and the check that replaces it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.operators.drawing import Drawn
from benchmarks.operators.reference import Answer, Reference

BOUNDS = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
"""Real interval of fused activations, by name."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A documented difference. The texts are the cells of a row of `docs/deviations.md`.

    `plain`: it concerns numbers without quantisation."""

    operators: tuple[str, ...]
    where: str
    reference: str
    penstock: str
    source: str
    applies: Callable[[Drawn], bool]
    expected: Callable[[Drawn, Reference], Answer]
    tolerance: int = 0
    plain: bool = False
