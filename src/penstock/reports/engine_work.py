"""EngineWork: how much of a model each engine does; LeftToCpu: what accelerators leave to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from penstock.ir.composite import Composite
from penstock.reports.formats import ABSENT
from penstock.scheduling.cost import NOTHING, Cost
from penstock.scheduling.part import Part
from penstock.scheduling.plan import Plan
from penstock.scheduling.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles by the cost model, and by the cycle model over the executed instructions."""

    estimated: int
    simulated: int | None


@dataclass(frozen=True, slots=True)
class EngineWork:
    """What one engine does of a model: nodes of the graph, calls of kernels, multiply-accumulates,
    cycles, simulated only where a simulated core stands for the engine."""

    name: str
    nodes: int
    calls: int
    macs: int
    cycles: Cycles

    def simulated(self, cycles: int) -> EngineWork:
        """The same with what a core executed."""
        return replace(self, cycles=Cycles(self.cycles.estimated, cycles))


@dataclass(frozen=True, slots=True)
class LeftToCpu:
    """A node that no accelerator runs: where it stands in the model file, why, and what its calls
    cost on the processor, in estimated cycles."""

    node: str
    origin: str
    reason: str
    cycles: int

    @property
    def where(self) -> str:
        """Where it stands, without the model's name."""
        return self.origin.split(": ", 1)[-1] or self.node

    @property
    def why(self) -> str:
        return self.reason or ABSENT


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node: its operator, the shape of its output, who runs it, its name."""

    kind: str
    shape: tuple[int, ...]
    engine: str
    name: str


def is_offloaded(part: Part) -> bool:
    """Whether an accelerator runs a part."""
    return part.kernel.body is not None


def engine_work(schedule: Schedule) -> tuple[EngineWork, ...]:
    """What each engine does, the processor first, who only copies or hands over last; nothing where
    there is no accelerator.  Estimated cycles sum up to those of the schedule."""
    parts = schedule.parts
    if not parts.accelerators:
        return ()
    costs = {k: cost for plan in schedule.plans for k, cost in _costs(plan)}
    found: dict[str, EngineWork] = {}
    for k, part in sorted(enumerate(parts.parts), key=lambda item: _rank(item[1])):
        found[part.engine] = _more(found.get(part.engine), part.engine, _nodes(part), costs[k])
    for name in parts.accelerators:
        found.setdefault(name, _more(None, name, 0, NOTHING))
    for plan in schedule.plans:
        if plan.copying != NOTHING:
            name = schedule.homes.copier
            found[name] = _more(found.get(name), name, 0, plan.copying)
        if plan.waiting != NOTHING:
            name = parts.parts[plan.parts[0]].engine
            found[name] = _more(found.get(name), name, 0, plan.waiting)
    return tuple(found.values())


def has_simulated(engines: Sequence[EngineWork]) -> bool:
    """Whether a simulated core ran what one of the engines does."""
    return any(engine.cycles.simulated is not None for engine in engines)


def shares(engines: Sequence[EngineWork]) -> tuple[float, ...]:
    """Of the estimated cycles, the part of each engine, in [0, 1]."""
    total = max(1, sum(engine.cycles.estimated for engine in engines))
    return tuple(engine.cycles.estimated / total for engine in engines)


def _costs(plan: Plan) -> Iterable[tuple[int, Cost]]:
    """What each part costs."""
    return zip(plan.parts, plan.costs, strict=True)


def _rank(part: Part) -> int:
    """The processor's before accelerators' before the caller's."""
    return 2 if part.pulled is not None else int(is_offloaded(part))


def _nodes(part: Part) -> int:
    """Nodes of the graph, those inside of composites too."""
    return sum(len(n.op.nodes) if isinstance(n.op, Composite) else 1 for n in part.nodes)


def _more(done: EngineWork | None, name: str, nodes: int, cost: Cost) -> EngineWork:
    """What an engine does, and some more."""
    before = done or EngineWork(name, 0, 0, 0, Cycles(0, None))
    return EngineWork(
        name,
        before.nodes + nodes,
        before.calls + cost.calls,
        before.macs + cost.macs,
        Cycles(before.cycles.estimated + cost.cycles, None),
    )


def left_to_cpu(schedule: Schedule) -> tuple[LeftToCpu, ...]:
    """The nodes that no accelerator runs, in the graph's order."""
    parts = schedule.parts.parts
    cycles = {parts[k].name: cost.cycles for plan in schedule.plans for k, cost in _costs(plan)}
    return tuple(
        LeftToCpu(
            left.node.name,
            left.node.origin,
            left.reason,
            cycles.get(left.node.name, left.cycles),
        )
        for left in schedule.parts.left
    )
