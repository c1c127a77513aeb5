"""A report made from a compilation: the only place that derives figures from schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from penstock.hardware.target import Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value, whole_work
from penstock.memory.problem import Placement
from penstock.optional import attempt
from penstock.passes.streamed_rows import channels_first
from penstock.program.constants import weight_bytes, weight_bytes_by_tensor
from penstock.program.program import Kind, Program
from penstock.reports.command import CompileCommand
from penstock.reports.formats import number
from penstock.reports.layer import model_layers
from penstock.reports.report import (
    CascadeReport,
    CycleCounts,
    EngineWork,
    FallbackReport,
    Flash,
    Instructions,
    InterfaceTensor,
    Macs,
    ModelInterface,
    Optimality,
    Point,
    RamUsage,
    Report,
    Requantised,
)
from penstock.reports.steps import (
    constant_by_layer,
    costed_steps,
    is_offloaded,
    layers,
    requantisation_classes,
)
from penstock.reports.traced import engine_times, live_bytes, timelines
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stripe import count_stripes, highest_stripe
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


class Lowered(Protocol):
    """A compilation: the results of all stages."""

    @property
    def model(self) -> Graph: ...

    @property
    def schedule(self) -> Schedule: ...

    @property
    def placement(self) -> Placement: ...

    @property
    def program(self) -> Program: ...


def make_report(
    done: Lowered,
    target: Target,
    ram: RamUsage,
    frontier: tuple[Point, ...],
    command: CompileCommand,
    free_bytes: Mapping[str, int],
) -> Report:
    """Return the report of a compilation. Measured figures are None until the caller adds them.

    `free_bytes` maps memories that do not count as RAM to bytes.
    """
    schedule, program = done.schedule, done.program
    cost = schedule.cost
    weights = weight_bytes(program)
    constants = sum(v.type.size_bytes for v in schedule.assigned_parts.graph.constants())
    steps = layers(schedule, program)
    memories = attempt("memory over time", lambda: timelines(schedule, program), tuple)
    return Report(
        done.model.name,
        target.name,
        ram,
        Flash(weights, weights, None, constants),
        Macs(
            done.model.macs(),
            cost.macs,
            cost.constant_macs + folded_macs(done.model, schedule.assigned_parts.graph),
        ),
        CycleCounts(cost.cycles, None),
        Instructions(None),
        frontier,
        Optimality(
            certificate(schedule.gaps.order),
            certificate(schedule.gaps.partition),
            certificate(done.placement.gap),
        ),
        command,
        cascades=striped(schedule),
        engines=engine_work(schedule),
        left_to_cpu=left_to_cpu(schedule),
        requantisation=tuple(
            Requantised(part.name, part.kernel.name, requantisation_classes(part))
            for part in schedule.steps
            if part.kernel.classes
        ),
        constant_channels=tuple(constant_by_layer(schedule).values()),
        free_bytes=free_bytes,
        memory_bytes={memory.name: memory.size_bytes for memory in program.ram()},
        clock_hz=target.clock_hz,
        interface=model_interface(done.model, schedule.assigned_parts.graph),
        optimised_for=target.compiler.optimise,
        layers=steps,
        model_layers=model_layers(
            steps,
            done.model,
            weight_bytes_by_tensor(program),
            live_bytes(schedule, memories[0]) if memories else {},
        ),
        timelines=memories,
        engine_times=attempt("engines over time", lambda: engine_times(schedule), lambda: None),
    )


def ram_usage(
    schedule: Schedule, program: Program, free_bytes: Mapping[str, int], stack_bytes: int
) -> RamUsage:
    """Return the RAM of a lowered schedule; see `make_report`."""
    arena, *others = (0 if m.name in free_bytes else m.size_bytes for m in program.ram())
    return RamUsage(
        total=arena + sum(others) + stack_bytes,
        arena=arena,
        static=sum(others),  # the objects of the model contain no other data
        stack=stack_bytes,
        io=_kind_bytes(program, Kind.IO, free_bytes),
        scratch=0
        if schedule.memory.default in free_bytes
        else max((plan.scratch_bytes for plan in schedule.plans), default=0),
        state=_kind_bytes(program, Kind.STATE, free_bytes),
    )


def striped(schedule: Schedule) -> tuple[CascadeReport, ...]:
    """Return the cascades of a schedule that run in stripes, in order."""
    if not schedule.bands and all(plan.stripe is None for plan in schedule.plans):
        return ()
    cascades = ExpandedSchedule(schedule).cascades
    found = (costed_steps(schedule, cascade) for cascade in cascades)
    layers = {box.node: box.tensor for box in schedule.boxes}
    copies = {box.node for box in schedule.boxes if box.is_copy}
    return tuple(
        CascadeReport(
            len({layers.get(o.tensor, o.tensor) for o in costed if o.tensor not in copies}),
            max(highest_stripe(one.stripes) for one in costed),
            sum(count_stripes(one.stripes) for one in costed),
        )
        for costed in found
        if costed[0].in_cascade
    )


def _kind_bytes(program: Program, kind: Kind, free: Container[str]) -> int:
    """The bytes, over all memories but those in `free`, of the union of the buffers of a kind."""
    total = 0
    for memory in program.ram():
        if memory.name in free:
            continue
        inside = (b for b in program.buffers if b.kind is kind and b.memory == memory.name)
        end = 0
        for lower, upper in sorted((b.address, b.address + b.size_bytes) for b in inside):
            total += max(0, upper - max(lower, end))
            end = max(end, upper)
    return total


def certificate(gap: float) -> str | float:
    """Return "optimal" if the proved gap is zero, or else the gap."""
    return "optimal" if gap == 0.0 else gap


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


def _costs(plan: Plan) -> Iterable[tuple[int, Cost]]:
    return zip(plan.parts, plan.costs, strict=True)


def _rank(part: Part) -> int:
    return 2 if part.streamed_input is not None else int(is_offloaded(part))


def _nodes(part: Part) -> int:
    """The number of nodes of the graph in a part, including those in composites."""
    return sum(len(n.op.nodes) if isinstance(n.op, Composite) else 1 for n in part.nodes)


def _more(done: EngineWork | None, name: str, nodes: int, cost: Cost) -> EngineWork:
    before = done or EngineWork(name, 0, 0, 0, CycleCounts(0, None))
    return EngineWork(
        name,
        before.nodes + nodes,
        before.calls + cost.calls,
        before.macs + cost.macs,
        CycleCounts(before.cycles.estimated + cost.cycles, None),
    )


def left_to_cpu(schedule: Schedule) -> tuple[FallbackReport, ...]:
    """Return the nodes that fall back to the CPU, in the order of the graph.

    If the compiler made several nodes of one of the model, its position also names the one of them.
    """
    parts, offloaded = schedule.parts.parts, schedule.parts.offloaded
    found = () if offloaded is None else offloaded.nodes
    inner = (node.op.nodes if isinstance(node.op, Composite) else (node,) for node in found)
    made = Counter(node.origin for nodes in inner for node in nodes)

    def origin(node: Node) -> str:
        model, separator, place = node.origin.partition(": ")
        several = separator and made[node.origin] > 1
        return f'{model}: {node.kind} "{node.name}" of {place}' if several else node.origin

    cycles = {parts[k].name: cost.cycles for plan in schedule.plans for k, cost in _costs(plan)}
    return tuple(
        FallbackReport(
            fallback.node.name,
            origin(fallback.node),
            fallback.reason,
            cycles.get(fallback.node.name, fallback.cycles),
        )
        for fallback in schedule.parts.cpu_fallbacks
    )


def folded_macs(model: Graph, graph: Graph) -> int:
    """Return the multiply-accumulates of the model's nodes that were evaluated at compile time,
    because they depend on no input; `graph` no longer contains them."""
    computed = {node.output.name for node in graph.nodes}
    constant: set[str] = set()
    total = 0
    for node in model.nodes:
        if all(value.name in constant for value in node.variable_inputs):
            constant.add(node.output.name)
            total += 0 if node.output.name in computed else whole_work(node).macs
    return total


def model_interface(model: Graph, compiled: Graph) -> ModelInterface:
    """Return the interface of a compiled graph.

    model: the graph as read from the file.  Where a conversion at its border is the caller's, the
    compiled input has another name; the record has that of the model."""
    names = {value.name for value in model.inputs}
    producers = model.producers()
    planes = {value.name for value in channels_first(compiled)}
    orders = dict(model.orders)

    def name(value: Value) -> str:
        return value.name if value.name in names else producers[value.name].inputs[0].name

    return ModelInterface(
        tuple(
            InterfaceTensor.of(
                name(x), x.type, channels_first=x.name in planes, order=orders.get(name(x), ())
            )
            for x in compiled.inputs
        ),
        tuple(
            InterfaceTensor.of(y.name, y.type, order=orders.get(in_file.name, ()))
            for y, in_file in zip(compiled.outputs, model.outputs, strict=True)
        ),
    )
