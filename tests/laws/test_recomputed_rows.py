"""Laws of chains, over small networks.

Any set of tensors can be recomputed, and the schedule has the live bytes that a simulation which
shares no code with the scheduler finds, computes exactly, and costs what the machine counts.  The
search finds the frontier over all sets of few tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from hypothesis import assume, given
from hypothesis import strategies as st

from cascade_judge import Judge, Play
from found import few
from lowered import Lowered, assert_equal_to_graph
from penstock.backends.processor_parts import Engines, assign
from penstock.compiled import UNBOUNDED
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import place
from penstock.pipeline.search import TargetBands, schedule
from penstock.scheduling.bands.band_search import BandLimits, OrderedParts
from penstock.scheduling.bands.below_rows import BelowRows
from penstock.scheduling.bands.chain_search import (
    MOST_TENSORS,
    STRIPES,
    Cascade,
    ChainPlan,
    ChainSearch,
    PartCycles,
)
from penstock.scheduling.bands.chains import ChainShapes
from penstock.scheduling.bands.columns import PartColumnReads
from penstock.scheduling.cascades.proposals import Proposal
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.row_tables import row_tables
from small_plans import narrow_and_wide
from texts.graph_reader import graph_from_text

TARGET = load_target("host")
OPTIONS = Options(max_recompute=1e6)


@dataclass(frozen=True)
class Setting:
    """A graph with a streamed input, in the order of its parts, and the searches below rows."""

    graph: Graph

    @cached_property
    def parts(self) -> Parts:
        return assign(self.graph, TARGET, stream_input=True)

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(range(len(self.parts.parts)))

    @cached_property
    def below(self) -> BelowRows:
        engine = TARGET.engines[0]
        memories = MemorySystem(TARGET.arenas, TARGET.memory_for("constant"), engine)
        model = Engines(engine)
        accounting = CostAccounting(self.parts, model, memories)
        return BelowRows(accounting, OPTIONS, TargetBands(TARGET, model, memories), 0.0)

    @cached_property
    def search(self) -> ChainSearch:
        return self.limited(UNBOUNDED)

    def limited(self, peak_bytes: int) -> ChainSearch:
        """The search for cascades with fewer live bytes than a limit."""
        accounting = self.below.accounting
        calls = tuple(map(accounting.model.call_cycles, self.parts.parts))
        tables = row_tables(
            self.parts.rows, self.order, call_cycles=calls, keep_inputs=False, nearest_first=False
        )
        memory = accounting.memories.default_assignment
        limits = BandLimits(peak_bytes, 1e12, len(self.order))
        shapes = ChainShapes(self.parts.parts, tables, PartColumnReads())
        cycles = PartCycles(accounting.model, lambda position: 0.0)
        return ChainSearch(
            OrderedParts(self.parts, self.order), tables, shapes, cycles, memory, limits
        )

    def plan(self, recomputed: Sequence[int], stripe: int, arena_bytes: int) -> ChainPlan | None:
        """A cascade of all parts that recomputes the outputs of some; None if it is impossible."""
        count = len(self.order)
        cascade = Cascade(0, count, stripe)
        found = self.search.evaluated(cascade, {})
        for p in recomputed:
            chains = None
            if found is not None and self.search.can_recompute(p, count):
                chains = self.search.extended(found, p, arena_bytes)
            found = None if chains is None else self.search.evaluated(cascade, chains)
        return found

    def sets(self) -> Iterator[tuple[int, ...]]:
        """All sets of parts whose outputs may be recomputed, readers before what they read."""
        count = len(self.order)
        possible = [p for p in reversed(self.order) if self.search.can_recompute(p, count)]
        for size in range(1, len(possible) + 1):
            yield from combinations(possible, size)


@few
@given(
    graph=narrow_and_wide(),
    chosen=st.integers(0, 1 << 30),
    stripe=st.sampled_from((1, 1, 2, 3)),
    arena_bytes=st.sampled_from((24, 64, 1 << 20)),
    seed=st.integers(0, 99),
)
def test_any_set_is_recomputed_exactly_as_simulated(
    graph: Graph, chosen: int, stripe: int, arena_bytes: int, seed: int
) -> None:
    setting = Setting(graph)
    sets = list(setting.sets())
    assume(sets)
    plan = setting.plan(sets[chosen % len(sets)], stripe, arena_bytes)
    assume(plan is not None)
    assert plan is not None
    valued = setting.search.valued(plan)
    proposal = Proposal.of(setting.order, [valued], valued.memory, 0)
    schedule = setting.below.schedule(proposal, UNBOUNDED)
    assert schedule is not None
    judge = Judge(schedule.parts.graph, stream_input=True)
    order = tuple(range(len(judge.steps)))
    far = judge.ahead(order)

    def asks(k: int) -> list[str]:
        return sorted(judge.sources[k], key=lambda s: -far[s])

    play = Play(judge, order, 0, len(order), stripe, asks).run()
    assert schedule.peak_bytes == play.peak_bytes
    rounding = 4 * len(plan.members)  # the search rounds every block of an arena to words
    assert 0 <= plan.peak_bytes - schedule.peak_bytes < rounding
    assert round(plan.macs) + graph.macs() == schedule.cost.nominal_macs
    (point,) = place(Frontier((schedule,)), TARGET, OPTIONS)
    lowered = Lowered(graph, point.schedule, lower_point(point, ()))
    machine = assert_equal_to_graph(lowered, seed)
    cost = point.schedule.cost
    assert (machine.counts.macs, machine.counts.constant_macs) == (cost.macs, cost.constant_macs)
    assert machine.counts.read_bytes == dict(cost.read_bytes)
    assert machine.counts.written_bytes == dict(cost.written_bytes)


@few
@given(graph=narrow_and_wide())
def test_small_networks_have_the_frontier_of_all_sets_and_arenas(graph: Graph) -> None:
    """All sets of recomputed tensors, with every size of the scratch memory of chains."""
    setting = Setting(graph)
    count = len(setting.order)
    assume(len(list(setting.sets())) < 1 << MOST_TENSORS)
    rows = setting.plan((), 1, 0)
    assert rows is not None
    search = setting.limited(rows.peak_bytes)
    found = [
        *search.every_set(0, count),
        *(
            plan
            for stripe in STRIPES
            for plan in search.grown(Cascade(0, count, stripe), rows.peak_bytes)
        ),
    ]
    every = [
        plan
        for recomputed in setting.sets()
        for stripe in STRIPES
        for arena in range(4, rows.peak_bytes + 4, 4)
        for plan in [setting.plan(recomputed, stripe, arena)]
        if plan is not None
    ]
    assert efficient(found) == efficient(every)


def efficient(plans: Sequence[ChainPlan]) -> set[tuple[int, int]]:
    """The live bytes and cycles of the plans that no other plan dominates."""
    costs = {(plan.peak_bytes, plan.time) for plan in plans}
    return {c for c in costs if not any(o != c and o[0] <= c[0] and o[1] <= c[1] for o in costs)}


def test_a_part_of_which_a_call_needs_no_row_is_not_recomputed() -> None:
    """The last row of the convolution reads padding alone, and no row reads the one above it."""
    graph = graph_from_text(
        """
        graph g
        input x: int8[1,2,1,2] scale 0.01 zero 79
        constant w: float32[1,1,2,2] = 0.5
        constant b: float32[1] = 1.0
        r: float32[1,2,1,2] = Dequantize(x)
        y: float32[1,3,1,1] = PlainConv2D(r, w, b, rows=Window(size=1, stride=2, before=2, after=1), columns=Window(size=2, stride=2, after=2))
        output y
        """  # noqa: E501
    )
    target = load_target("cortex-m4")
    for point in place(schedule(assign(graph, target), target, Options()), target, Options()):
        assert_equal_to_graph(Lowered(graph, point.schedule, lower_point(point, ())), 0)
