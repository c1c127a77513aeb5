"""Rows that several layers of a cascade share are counted, not looked up in tables."""

from __future__ import annotations

from pathlib import Path

from penstock import api
from penstock.pipeline.emission import lower_point, write
from penstock.program.program import Loop
from penstock.program.steps import bound_tables, walk

MODEL = Path(__file__).parents[2] / "models" / "strided_residual.tflite"


def test_a_shared_producer_is_a_function_with_a_counter() -> None:
    done = api.compile(MODEL, "cortex-m4").compilation
    shared = 0
    for point in done.points:
        program = lower_point(point)
        assert not bound_tables(program)
        loops = [command for command in walk(program.run) if isinstance(command, Loop)]
        counters = {c.name for loop in loops for c in loop.counters}
        assert {loop.counted.counter for loop in loops if loop.counted} == counters
        text = dict(write(program, done.request).files)["strided_residual.c"].decode()
        assert text.count("*made") == len(counters)
        shared += len(counters)
    assert shared
