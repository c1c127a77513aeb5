"""layered: the schedule that runs layer by layer: every part whole, in the order of least peak."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.ir.region import Region
from penstock.scheduling.cost import CostModel, cost_of
from penstock.scheduling.options import Options
from penstock.scheduling.order import OrderOptions, find_order
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.plan import Plan, Stripe
from penstock.scheduling.schedule import Frontier, InPlace, Schedule
from penstock.scheduling.steps import OrderProblem, Step


def layer_by_layer(parts: Parts, model: CostModel, options: Options) -> Frontier:
    """The one schedule that runs every part whole."""
    problem = order_problem(parts, keep_inputs=options.keep_input)
    found = find_order(problem, OrderOptions(max_states=options.order_states))
    plans = tuple(_whole(k, parts.parts[k], model) for k in found.order)
    shared = _shared_in_place(problem, found.order)
    schedule = Schedule(parts, plans, shared, options.keep_input, found.peak_bytes, found.gap)
    return Frontier((schedule,))


def order_problem(parts: Parts, *, keep_inputs: bool) -> OrderProblem:
    """The parts as steps that read and write storages."""
    storages = parts.storages()
    graph = parts.graph
    named = {storages[v.name] for v in graph.variables()}
    sizes = ((v.name, v.type.size_bytes) for v in graph.variables() if v.name in named)
    outputs = (storages[v.name] for v in graph.outputs if v.data is None)
    return OrderProblem(
        tuple(_step(part, storages) for part in parts.parts),
        tuple(sizes),
        tuple(v.name for v in graph.inputs),
        tuple(dict.fromkeys(outputs)),
        keep_inputs,
    )


def _step(part: Part, storages: Mapping[str, str]) -> Step:
    reads = tuple(dict.fromkeys(storages[v.name] for v in part.variable_inputs))
    written = storages[part.output.name]
    pairs = ((read, written) for read in reads if _may_overwrite(part, read, storages))
    return Step(part.name, reads, (written,), part.kernel.scratch_bytes, tuple(pairs))


def _may_overwrite(part: Part, storage: str, storages: Mapping[str, str]) -> bool:
    """Whether the part may write over `storage` while it reads it: element i of its output depends
    on element i of it alone, through every input that lies in it."""
    node = part.nodes[-1]
    allowed = node.op.in_place(node.site)
    return all(
        k in allowed
        for k, value in enumerate(node.inputs)
        if value.data is None and storages[value.name] == storage
    )


def _shared_in_place(problem: OrderProblem, order: tuple[int, ...]) -> tuple[InPlace, ...]:
    """For each step that may, the pair that saves most, among storages that it reads last."""
    sizes = dict(problem.sizes)
    kept = {*problem.outputs, *(problem.inputs if problem.keep_inputs else ())}
    steps = [problem.steps[k] for k in order]
    last_read = {name: at for at, step in enumerate(steps) for name in step.reads}
    found: list[InPlace] = []
    for at, step in enumerate(steps):
        dying = [(r, w) for r, w in step.in_place if last_read[r] == at and r not in kept]
        if dying:
            read, written = max(dying, key=lambda pair: min(sizes[pair[0]], sizes[pair[1]]))
            found.append(InPlace(read, written))
    return tuple(found)


def _whole(index: int, part: Part, model: CostModel) -> Plan:
    out = Region.whole(part.output.type.shape)
    return Plan((index,), (Stripe(out),), cost_of(part, out, model))
