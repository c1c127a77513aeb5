"""Damaged TFLite files: mutations of bytes, of fields and of the structure."""

from __future__ import annotations

from functools import cache

from benchmarks.mutations import Subject, mutant
from benchmarks.tflite_subjects import tflite_subjects
from benchmarks.torture.case import Case, Generator, Limits
from benchmarks.torture.damage_judge import judge

LIMITS = Limits(seconds=60.0, memory_bytes=2 << 30)


def draw(seed: int) -> Case:
    """The mutant of a seed."""
    made = mutant(_subjects(), seed, 0)
    return Case(made.raw, made.suffix, judge)


@cache
def _subjects() -> tuple[Subject, ...]:
    return tuple(Subject.of(path.name, path.read_bytes()) for path in tflite_subjects())


GENERATOR = Generator("tflite-mutants", draw, ("tflite_micro",), LIMITS, deep=10)
