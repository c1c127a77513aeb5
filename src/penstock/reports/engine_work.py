"""The work of each engine, and the nodes that fall back to the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.ir.composite import Composite
from penstock.reports.formats import ABSENT, number
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule


@dataclass(frozen=True, slots=True)
class CycleCounts:
    """Cycles by the cost model, and by the timing model of a simulated core."""

    estimated: int
    simulated: int | None


@dataclass(frozen=True, slots=True)
class EngineWork:
    """The work of one engine: nodes, kernel calls, multiply-accumulates and cycles. Simulated
    cycles exist only for engines that a simulated core executes."""

    name: str
    nodes: int
    calls: int
    macs: int
    cycles: CycleCounts

    def simulated(self, cycles: int) -> EngineWork:
        """Return a copy with simulated cycles."""
        return replace(self, cycles=CycleCounts(self.cycles.estimated, cycles))


@dataclass(frozen=True, slots=True)
class FallbackReport:
    """A node that falls back to the CPU: its position in the model file, the reason, and its
    estimated cycles on the processor."""

    node: str
    origin: str
    reason: str
    cycles: int

    @property
    def where(self) -> str:
        """Its position in the model file, without the name of the model."""
        return self.origin.split(": ", 1)[-1] or self.node

    @property
    def why(self) -> str:
        return self.reason or ABSENT


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node: operator, output shape, engine, name."""

    kind: str
    shape: tuple[int, ...]
    engine: str
    name: str


def is_offloaded(part: Part) -> bool:
    """Return whether an accelerator runs a part."""
    return part.kernel.body is not None


def engine_work(schedule: Schedule) -> tuple[EngineWork, ...]:
    """Return the work of each engine, or nothing if there is no accelerator.

    The processor is first; engines that only copy or supply the input are last. The estimated
    cycles sum to those of the schedule.
    """
    parts = schedule.parts
    if not parts.accelerators:
        return ()
    costs = {k: cost for plan in schedule.plans for k, cost in _costs(plan)}
    found: dict[str, EngineWork] = {}
    for k, part in sorted(enumerate(parts.parts), key=lambda item: _rank(item[1])):
        found[part.engine] = _more(found.get(part.engine), part.engine, _nodes(part), costs[k])
    for part, cost in zip(parts.updates, schedule.updating, strict=True):
        found[part.engine] = _more(found.get(part.engine), part.engine, 0, cost)
    for name in parts.accelerators:
        found.setdefault(name, _more(None, name, 0, NOTHING))
    for plan in schedule.plans:
        if plan.copying != NOTHING:
            assert schedule.copier is not None
            name = schedule.copier
            found[name] = _more(found.get(name), name, 0, plan.copying)
        if plan.waiting != NOTHING:
            name = parts.parts[plan.parts[0]].engine
            found[name] = _more(found.get(name), name, 0, plan.waiting)
    return tuple(found.values())


def stated_cycles(schedule: Schedule, driver_cycles: Mapping[str, float]) -> str:
    """Return the cycles of accelerators by their drivers and by their costs, as text.

    driver_cycles: by accelerator, the cycles that its driver functions state for a run.
        Accelerators without an entry are omitted."""
    estimated = {work.name: work.cycles.estimated for work in engine_work(schedule)}
    return "; ".join(
        f"{engine}: {number(round(cycles))} cycles by its driver functions, "
        f"{number(estimated[engine])} by its cost functions"
        for engine, cycles in driver_cycles.items()
    )


def has_simulated(engines: Sequence[EngineWork]) -> bool:
    """Return whether one of the engines has simulated cycles."""
    return any(engine.cycles.simulated is not None for engine in engines)


def shares(engines: Sequence[EngineWork]) -> tuple[float, ...]:
    """Return the fraction of the estimated cycles of each engine, in [0, 1]."""
    total = max(1, sum(engine.cycles.estimated for engine in engines))
    return tuple(engine.cycles.estimated / total for engine in engines)


def _costs(plan: Plan) -> Iterable[tuple[int, Cost]]:
    """Return the index and cost of each part of a plan."""
    return zip(plan.parts, plan.costs, strict=True)


def _rank(part: Part) -> int:
    """Return the sort key of a part's engine: the processor, then accelerators, then the caller."""
    return 2 if part.streamed_input is not None else int(is_offloaded(part))


def _nodes(part: Part) -> int:
    """Return the number of nodes of the graph in a part, including those in composites."""
    return sum(len(n.op.nodes) if isinstance(n.op, Composite) else 1 for n in part.nodes)


def _more(done: EngineWork | None, name: str, nodes: int, cost: Cost) -> EngineWork:
    """Return the work of an engine increased by a cost."""
    before = done or EngineWork(name, 0, 0, 0, CycleCounts(0, None))
    return EngineWork(
        name,
        before.nodes + nodes,
        before.calls + cost.calls,
        before.macs + cost.macs,
        CycleCounts(before.cycles.estimated + cost.cycles, None),
    )


def left_to_cpu(schedule: Schedule) -> tuple[FallbackReport, ...]:
    """Return the nodes that fall back to the CPU, in the order of the graph."""
    parts = schedule.parts.parts
    cycles = {parts[k].name: cost.cycles for plan in schedule.plans for k, cost in _costs(plan)}
    return tuple(
        FallbackReport(
            fallback.node.name,
            fallback.node.origin,
            fallback.reason,
            cycles.get(fallback.node.name, fallback.cycles),
        )
        for fallback in schedule.parts.cpu_fallbacks
    )
