"""ethos_u in bands of columns: the stated cycles are those of the streams, decoded and timed."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.ethos_u import processor_cycles
from benchmarks.ethos_u_time import program_cycles
from found import few
from penstock import api
from penstock.backends.program_passes import after_placement
from penstock.compiled import UNBOUNDED
from penstock.ir.graph import Graph
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.placing import PlacedPoint, place
from penstock.pipeline.request import Request
from penstock.pipeline.search import band_source, cost_model_and_memories
from penstock.program.lower import lower
from penstock.program.placed_cost import with_placed_costs
from penstock.program.writer import Addresses
from penstock.scheduling.bands.below_rows import BelowRows
from penstock.scheduling.cascades.proposals import Candidate, Proposal
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Chain, Plan
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedSchedule,
    placement_problems,
    scratch_name,
)
from penstock.scheduling.simulate.walk import WHOLE
from penstock_ethos_u.configurations import configuration
from small_plans import narrow_and_wide

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

MACS = 128
OPTIONS = Options(max_recompute=1e6)
MODES = ("shared_sram", "sram_only")
PLACES = 4000
"""Rows lie at multiples of 16 bytes below 16 times this, over each other or not."""


class Setting:
    """A graph on Ethos-U in NHWC, and schedules in which some of its parts run in bands."""

    def __init__(self, graph: Graph, mode: str) -> None:
        engine = f"ethos_u55:macs={MACS},memory_mode={mode},layout=nhwc"
        self.request: Request = api.request(
            f"zoo:{graph.name}", "host", accelerators=(engine,), options=OPTIONS
        )
        self.parts: Parts = assign_engines(graph, self.request)

    @cached_property
    def below(self) -> BelowRows:
        target, accelerators = self.request.target, self.request.accelerators
        model, memories = cost_model_and_memories(target)
        accounting = CostAccounting(self.parts, model, memories)
        return BelowRows(accounting, OPTIONS, band_source(target, accelerators), 0.0)

    def schedule(self, first: int, bands: Plan) -> Schedule | None:
        """The schedule that runs the parts before `first` one by one, and all others in bands."""
        order = tuple(range(len(self.parts.parts)))
        memory = self.below.accounting.memories.default_assignment
        plans = [Plan((k,), None, scratch_bytes=SCRATCH) for k in range(first)]
        found = [
            Candidate(plan.parts[0], plan.parts[-1] + 1, plan, memory, 0, 0, memory, memory)
            for plan in (*plans, bands)
        ]
        return self.below.schedule(Proposal.of(order, found, memory, 0), UNBOUNDED)


SCRATCH = 1 << 20
"""Scratch memory that suffices for every kernel."""


def scattered(point: PlacedPoint, share: float, seed: int) -> Addresses:
    """Addresses in which a share of the rows lie somewhere else, above all placed memory.

    The arenas of bands, which are scratch, stay where they were placed.
    """
    rng = np.random.default_rng(seed)
    offsets, schedule = dict(point.addresses.offsets), point.schedule
    fixed = {scratch_name(schedule, plan) for plan in schedule.plans}
    base = -(-max(height for _, height in point.addresses.heights) // 16) * 16
    for _, problem in placement_problems(ExpandedSchedule(schedule)):
        for buffer in problem.buffers:
            if buffer.anchor is None and buffer.name not in fixed and rng.random() < share:
                offsets[buffer.name] = base + 16 * int(rng.integers(PLACES))
        for buffer in problem.buffers:
            if buffer.anchor is not None:
                offsets[buffer.name] = offsets[buffer.anchor] + buffer.distance_bytes
    heights = tuple((memory, 1 << 24) for memory, _ in point.addresses.heights)
    return Addresses(offsets, heights)


@few
@given(
    graph=narrow_and_wide(),
    mode=st.sampled_from(MODES),
    first=st.integers(0, 3),
    width=st.integers(1, 5),
    stripe=st.sampled_from((1, 2, 4, WHOLE)),
    form=st.sampled_from(("cascade", "chain", "chain that keeps halos")),
    share=st.sampled_from((0.0, 0.3, 1.0)),
    seed=st.integers(0, 99),
)
def test_calls_in_bands_take_the_stated_cycles(
    graph: Graph, mode: str, first: int, width: int, stripe: int, form: str, share: float, seed: int
) -> None:
    setting = Setting(graph, mode)
    count = len(setting.parts.parts)
    assume(first < count - 1)
    parts = tuple(range(first, count))
    bands = Plan(parts, None if stripe == WHOLE else stripe, scratch_bytes=SCRATCH)
    if form == "cascade":
        bands = replace(bands, columns=width)
    else:
        bands = replace(bands, chains=(Chain(parts, width, form != "chain"),))
    schedule = setting.schedule(first, bands)
    assume(schedule is not None)
    assert schedule is not None
    (point,) = place(Frontier((schedule,)), setting.request.target, OPTIONS)
    addresses = scattered(point, share, seed)
    expanded = ExpandedSchedule(schedule)
    moved = replace(point, schedule=with_placed_costs(expanded, addresses))
    program = after_placement(lower(expanded, addresses), setting.request.accelerators)
    said = moved.schedule.cost.cycles - processor_cycles(moved)
    assert said == program_cycles(program, configuration("ethos-u55", MACS, mode))
    (cost,) = (each.cost for each in moved.schedule.bands)
    assert cost in moved.schedule.plans[-1].costs
