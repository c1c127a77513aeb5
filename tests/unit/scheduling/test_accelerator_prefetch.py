"""Prefetches by accelerators: constants that are copied during other calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowered import inputs_of_graph
from offloading import assert_exact
from penstock.backends.processor_parts import Engines
from penstock.choices import Optimize
from penstock.errors import InternalError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.ops.unary import LeakyRelu
from penstock.pipeline.compilation import Compilation, compile_graph
from penstock.pipeline.request import Request
from penstock.program.program import Call, Loop
from penstock.scheduling.cascades.schedule_builder import (
    MOST_PREFETCHES,
    PrefetchCandidates,
    with_accelerator_prefetches,
)
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, placement_problems
from penstock.simulators.machine import Machine
from penstock.uma import (
    Address,
    Breakdown,
    Command,
    ConstantPrefetch,
    Driver,
    Filling,
    KernelCall,
    Offloaded,
    OpStrategy,
    UMABackend,
    Var,
    is_op,
    wildcard,
)

HOST = load_target("host")
TABLE_BYTES, SLOW, FAST = 256, 90, 20


def look_up(unit: object, table: Any, x: Any, y: Any, count: int) -> None:
    y[:count] = table[x[:count]]


def copy(unit: object, source: Any, target: Any) -> None:
    target[:TABLE_BYTES] = source[:TABLE_BYTES]


LOOK_UP = Driver("reader_look_up", "reader", look_up, object)
COPY = Driver("reader_copy", "reader", copy, object)


class Reader(UMABackend):
    """Functions of one element, by a table that takes long to read where it is constant."""

    def __init__(self, fetch_cycles: int) -> None:
        super().__init__()
        self._fetch_cycles = fetch_cycles
        self._register_pattern("leaky", is_op("nn.leaky_relu")(wildcard()))
        self._register_operator_strategy("nn.leaky_relu", self._strategy)
        self._register_codegen(includes='#include "reader.h"')

    @property
    def target_name(self) -> str:
        return "reader"

    def _strategy(self, attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
        found = OpStrategy()
        for name, prefetch, row in (("slow", None, SLOW), ("prefetched", self._fetch, FAST)):
            found.add_implementation(
                rows_of(prefetch is not None),
                name=name,
                cost=lambda offloaded, rows, row=row: 30 + rows * row,
                tables=table,
                by_rows=True,
                prefetch=prefetch,
            )
        return found

    def _fetch(self, offloaded: Offloaded) -> ConstantPrefetch:
        return ConstantPrefetch("table", TABLE_BYTES, self._fetch_cycles, copying)


def table(offloaded: Offloaded) -> dict[str, Any]:
    return {"table": np.roll(offloaded.tables["table"].view(np.uint8), 128)}


def copying(source: Address, target: Address) -> tuple[Command, ...]:
    return (KernelCall.invoke(COPY, source, target),)


def rows_of(prefetched: bool) -> Any:
    def compute(call: KernelCall) -> Sequence[Command]:
        row, x, y = Var("row"), call.operand(0), call.result
        place = call.prefetched if prefetched else call.table("table")
        done = call.invoke(LOOK_UP, place, x.row(row), y.row(row), x.row_bytes)
        return [Loop("row", call.first, call.end, 1, (done,))]

    return compute


def chain(parts: int, rows: int, width: int) -> Graph:
    net = GraphBuilder("chain")
    x = net.input((1, rows, width, 4))
    for k in range(parts):
        x = net.apply(LeakyRelu(0.1 * (k + 1)), x, quantisation=x.type.quantisation, name=f"f{k}")
    return net.build(x)


def compiled(
    graph: Graph, fetch_cycles: int, options: Options, backend: type[Reader] = Reader
) -> Compilation:
    accelerator = backend(fetch_cycles).accelerator({}, HOST)
    request = Request(
        f"zoo:{graph.name}",
        HOST,
        accelerators=(accelerator,),
        options=options,
        optimize=Optimize.SPEED,
    )
    return compile_graph(graph, request)


def accounting_of(done: Compilation) -> CostAccounting:
    engine = HOST.engines[0]
    memories = MemorySystem(HOST.arenas, HOST.memory_for("constant"), engine)
    return CostAccounting(done.parts, Engines(engine), memories)


def alive(schedule: Schedule) -> int:
    """Bytes that are alive at the worst moment, tick by tick."""
    buffers = placement_problems(ExpandedSchedule(schedule))[0][1].buffers
    ticks = range(max(b.upper for b in buffers))
    return max(sum(b.size_bytes for b in buffers if b.lower <= t < b.upper) for t in ticks)


def waiting(schedule: Schedule, accounting: CostAccounting) -> int:
    """Cycles that a schedule waits for its prefetches: no call that prefetches early takes less."""
    cascades, found = ExpandedSchedule(schedule).cascades, 0
    for before, cascade in zip((None, *cascades), cascades, strict=False):
        every = cascade.plan.prefetches
        found += sum(p.copy.cycles for p in every if not p.early)
        early = sum(p.copy.cycles for p in every if p.early)
        if before is not None:
            found += max(0, early - accounting.first_call_cycles(before))
    return round(found)


@settings(max_examples=25)
@given(
    parts=st.integers(1, 5),
    rows=st.integers(1, 9),
    width=st.sampled_from((2, 40, 200)),
    fetch_cycles=st.integers(1, 900),
)
def test_what_is_fetched_is_there_and_costs_what_it_says(
    parts: int, rows: int, width: int, fetch_cycles: int
) -> None:
    done = compiled(chain(parts, rows, width), fetch_cycles, Options(max_stripe=4))
    assert_exact(done, "points")
    memories = MemorySystem(HOST.arenas, HOST.memory_for("constant"), HOST.engines[0])
    accounting = CostAccounting(done.parts, Engines(HOST.engines[0]), memories)
    for schedule in done.frontier.schedules:
        assert alive(schedule) == schedule.peak_bytes
        calls = 0
        for cascade in ExpandedSchedule(schedule).cascades:
            prefetches = cascade.plan.prefetches
            assert len([p for p in prefetches if p.early]) <= MOST_PREFETCHES
            prefetched = {p.part for p in prefetches}
            for position, first, end in cascade.calls[:, :3].tolist():
                k = schedule.order[position]
                calls += 30 + (end - first) * (FAST if k in prefetched else SLOW)
        assert schedule.cost.cycles == calls + waiting(schedule, accounting)


@given(parts=st.integers(1, 5), rows=st.integers(1, 9), room=st.integers(0, 1000))
def test_it_keeps_to_the_limit_and_never_costs_more(parts: int, rows: int, room: int) -> None:
    done = compiled(chain(parts, rows, 30), 150, Options(max_stripe=4))
    memories = MemorySystem(HOST.arenas, HOST.memory_for("constant"), HOST.engines[0])
    accounting = CostAccounting(done.parts, Engines(HOST.engines[0]), memories)
    bare = (s for s in done.frontier.schedules if not any(p.prefetches for p in s.plans))
    for schedule in bare:
        limit = schedule.peak_bytes + room
        candidates = PrefetchCandidates(accounting)
        for ahead in with_accelerator_prefetches(schedule, candidates, [limit]):
            found = ahead.schedule
            assert alive(found) == found.peak_bytes <= limit
            cascades = ExpandedSchedule(found).cascades
            plans = [accounting.costed(found, cascade) for cascade in cascades]
            plans = accounting.with_prefetch_costs(cascades, plans)
            cycles = replace(found, plans=plans).cost.cycles
            assert ahead.cycles == cycles <= schedule.cost.cycles


def test_a_second_part_hides_its_fetch_behind_the_first() -> None:
    done = compiled(chain(2, 8, 30), 100, Options())
    fastest = min(done.frontier.schedules, key=lambda s: s.cost.cycles)
    (first, second) = fastest.plans
    assert [p.early for p in second.prefetches] == [True]
    assert [p.early for p in first.prefetches] == [False]
    assert fastest.cost.cycles == 100 + 2 * (30 + 8 * FAST)


def test_limits_of_live_bytes_between_two_others_are_found() -> None:
    """Copies of all constants at once need two tables' bytes more, alternate ones only one's."""
    done = compiled(chain(4, 8, 30), 100, Options())
    accounting = accounting_of(done)
    bare = min(
        (s for s in done.frontier.schedules if not any(p.prefetches for p in s.plans)),
        key=lambda s: s.peak_bytes,
    )
    limits = [bare.peak_bytes, math.inf]
    found = with_accelerator_prefetches(bare, PrefetchCandidates(accounting), limits)
    most = [one.schedule.peak_bytes - bare.peak_bytes for one in found]
    assert {0, TABLE_BYTES, 2 * TABLE_BYTES} <= {*most}


class BusyReader(Reader):
    """A reader that cannot copy constants while it reads its own where they are constant."""

    def _strategy(self, attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
        found = OpStrategy()
        for name, prefetch, row in (("slow", None, 65), ("prefetched", self._fetch, 40)):

            def filled(
                offloaded: Offloaded,
                rows: int,
                fillings: Sequence[Filling],
                row: int = row,
                reads: bool = prefetch is None,
            ) -> Breakdown:
                cycles = 30 + rows * row
                waited = self._fetch_cycles * sum(one.own for one in fillings)
                early = self._fetch_cycles * sum(not one.own for one in fillings)
                return Breakdown(waited + (cycles + early if reads else max(cycles, early)))

            found.add_implementation(
                rows_of(prefetch is not None),
                name=name,
                cost=lambda offloaded, rows, row=row: 30 + rows * row,
                tables=table,
                by_rows=True,
                prefetch=prefetch,
                filled_cost=filled,
            )
        return found


def test_a_call_that_reads_a_copy_leaves_the_memory_of_constants_to_the_copy_it_makes() -> None:
    """Copies of 300 cycles save 200, so one alone does not pay: the call that makes it reads its
    own constants meanwhile. It pays if that call reads a copy, too."""
    done = compiled(chain(3, 8, 30), 300, Options(), BusyReader)
    fastest = min(done.frontier.schedules, key=lambda s: s.cost.cycles)
    assert [[p.early for p in plan.prefetches] for plan in fastest.plans] == [
        [False],
        [True],
        [True],
    ]
    assert fastest.cost.cycles == 300 + 3 * (30 + 8 * 40)


def test_what_was_not_fetched_is_not_read() -> None:
    done = compiled(chain(2, 8, 30), 100, Options())
    inputs = inputs_of_graph(done.model, 1)
    Machine(done.program).run(inputs)
    first = done.program.run[0]
    assert isinstance(first, Call)
    assert len(first.prefetches) == 2
    own, _, *computing = first.body
    forgetful = replace(first, prefetches=first.prefetches[:1], body=(own, *computing))
    with pytest.raises(InternalError, match="is read where it is not"):
        Machine(replace(done.program, run=(forgetful, *done.program.run[1:]))).run(inputs)
