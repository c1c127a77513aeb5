"""Scratch: cascades get scratch memory if it saves cycles, and parts run kernels that fit.

The judge decides by itself which parts have room, in every way, and searches each time without a
choice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from penstock.backends.processor_parts import Engines, assign
from penstock.hardware.load import load_target
from penstock.ir.op import Kernel
from penstock.memory.problem import peak_live_bytes
from penstock.pareto import efficient
from penstock.passes.accumulate import accumulate
from penstock.pipeline.graphs import simplify
from penstock.pipeline.search import schedule
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedSchedule,
    placement_problems,
    scratch_name,
)
from penstock.zoo.registry import open_zoo

TARGET = load_target("cortex-m4")
ROWS = Options(max_recompute=1.0)
FREE = 4
"""Parts that keep their choice; 2 ** FREE searches judge."""


def decided(part: Part, *, fallback: bool) -> Part:
    """The part with one kernel, whatever room there is."""
    return part.within(0) if fallback else replace(part, fallback=None)


@pytest.fixture(scope="module")
def parts() -> Parts:
    """A network of which the first few parts with two kernels keep them."""
    every = assign(accumulate(simplify(open_zoo("zoo:resnet8"))), TARGET)
    choosers = [part.name for part in every.parts if part.fallback is not None]
    assert len(choosers) > FREE
    free = choosers[:FREE]
    return replace(every, parts=tuple(p if p.name in free else p.within(0) for p in every.parts))


@pytest.fixture(scope="module")
def found(parts: Parts) -> tuple[Schedule, ...]:
    return schedule(parts, TARGET, ROWS).schedules


def efficient_points(schedules: Iterable[Schedule]) -> list[tuple[int, int]]:
    points = [(s.peak_bytes, s.cost.cycles) for s in schedules]
    return [points[k] for k in efficient(points)]


def test_no_decision_of_ones_own_beats_the_search(
    parts: Parts, found: tuple[Schedule, ...]
) -> None:
    free = [part.name for part in parts.parts if part.fallback is not None]
    every: list[Schedule] = []
    for count in range(len(free) + 1):
        for chosen in combinations(free, count):
            alone = tuple(decided(part, fallback=part.name in chosen) for part in parts.parts)
            every += schedule(replace(parts, parts=alone), TARGET, ROWS).schedules
    assert efficient_points(found) == efficient_points(every)


def test_the_scratch_of_a_cascade_is_what_its_parts_use(found: tuple[Schedule, ...]) -> None:
    rooms: set[int] = set()
    for one in found:
        steps = iter(one.steps)
        for plan in one.plans:
            kernels = [next(steps).kernel for _ in plan.parts]
            assert plan.scratch_bytes == max(kernel.scratch_bytes for kernel in kernels)
            rooms.add(plan.scratch_bytes)
    assert len(rooms) > 2


def test_the_search_knows_what_scratch_takes(found: tuple[Schedule, ...]) -> None:
    for one in found:
        ((_, rectangles),) = placement_problems(ExpandedSchedule(one))
        assert peak_live_bytes(rectangles) <= one.peak_bytes + 16
        assert one.peak_bytes <= peak_live_bytes(rectangles)


def test_scratch_has_the_alignment_of_the_kernels_that_use_it(parts: Parts) -> None:
    """An accelerator copies rows to its scratch memory, so it addresses both in the same steps."""
    strict = next(part.name for part in parts.parts if part.fallback is not None)
    aligned = tuple(
        part.with_kernel(replace(part.kernel, alignment_bytes=64, scratch_bytes=100))
        if part.name == strict
        else part
        for part in parts.parts
    )
    every = replace(parts, parts=aligned)
    seen = 0
    for one in schedule(every, TARGET, ROWS).schedules:
        ((_, problem),) = placement_problems(ExpandedSchedule(one))
        alignments = {buffer.name: buffer.alignment for buffer in problem.buffers}
        for plan in one.plans:
            if strict in [every.parts[k].name for k in plan.parts]:
                assert alignments[scratch_name(one, plan)] == 64
                seen += 1
    assert seen


def test_cycles_are_those_of_the_kernels_that_run(found: tuple[Schedule, ...]) -> None:
    engines = Engines(TARGET.engines[0])
    slow, fast = (sum(engines.work_cycles(step) for step in s.steps) for s in (found[0], found[-1]))
    calls = [np.array([c.calls for plan in s.plans for c in plan.costs]) for s in found]
    assert slow > fast
    for one, made in zip(found, calls, strict=True):
        work = sum(engines.work_cycles(step) for step in one.steps)
        each = np.array([engines.call_cycles(step) for step in one.steps])
        odd = np.array([step.kernel.odd_cycles for step in one.steps])  # not of even calls
        assert work + int(made @ (each - odd)) <= one.cost.cycles <= work + int(made @ each)


def test_what_needs_no_scratch_has_no_second_kernel(parts: Parts) -> None:
    for part in parts.parts:
        if part.fallback is not None:
            assert part.kernel.scratch_bytes > 0
            assert part.within(part.kernel.scratch_bytes).kernel == part.kernel
            assert part.within(part.kernel.scratch_bytes - 1).kernel == part.fallback


def test_a_part_may_need_scratch_whatever_room_there_is() -> None:
    part = Part((), "cpu", Kernel("k", scratch_bytes=8))
    assert part.within(0) is part
    assert part.least_scratch_bytes == 8
