"""Damaged ONNX files: mutations of bytes and of the protobuf."""

from __future__ import annotations

from functools import cache

from benchmarks.mutations import Subject, mutant
from benchmarks.onnx_subjects import onnx_subjects
from benchmarks.torture.case import Case, Generator
from benchmarks.torture.damage_judge import judge
from benchmarks.torture.generators.tflite_mutants import LIMITS


def draw(seed: int) -> Case:
    """The mutant of a seed."""
    made = mutant(_subjects(), seed, 0)
    return Case(made.raw, made.suffix, judge)


@cache
def _subjects() -> tuple[Subject, ...]:
    return tuple(Subject.of(name, raw) for name, raw in onnx_subjects().items())


GENERATOR = Generator("onnx-mutants", draw, limits=LIMITS, deep=10)
