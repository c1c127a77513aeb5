"""Report: what report.json says; keys as the design's section 7 fixes them, no times in it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.brief import Brief
from penstock.ir.breakdown import Breakdown
from penstock.ir.graph import Graph
from penstock.ir.op import row_count
from penstock.memory.problem import Placement
from penstock.program.program import Kind, Program
from penstock.program.steps import steps
from penstock.program.tables import folded_constants, table_bytes
from penstock.reports.constant_channels import ConstantChannels, constant_by_layer, folded_macs
from penstock.reports.engine_work import (
    Cycles,
    EngineWork,
    LeftToCpu,
    engine_work,
    is_offloaded,
    left_to_cpu,
)
from penstock.reports.logical_shape import logical_shape, producers
from penstock.reports.spent import Spent, spent
from penstock.scheduling.cost import Cost, total
from penstock.scheduling.part import Part
from penstock.scheduling.plan import Plan
from penstock.scheduling.schedule import Schedule

SCHEMA = "penstock-report-1"
_NOTHING = Spent()
Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Ram:
    """RAM in bytes, as the design's section 4 defines it; io and scratch lie inside the arena."""

    total: int
    arena: int
    static: int
    stack: int
    io: int
    scratch: int


@dataclass(frozen=True, slots=True)
class Flash:
    """Flash in bytes; `code` is None where nothing was cross-compiled."""

    total: int
    weights: int
    code: int | None


@dataclass(frozen=True, slots=True)
class Macs:
    """Nominal multiply-accumulates of the model, those that the schedule executes, and those that
    it does not because their results do not depend on the input."""

    model: int
    executed: int
    constant: int


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions that a simulated core executed."""

    simulated: int | None


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the frontier; `chosen`: the one that is compiled."""

    ram_bytes: int
    cycles: int
    macs_executed: int
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """What the same command would compile with these options."""

    options: str
    ram_bytes: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Optimality:
    """ "optimal", or a proven gap: how far, at most, above the least."""

    order: str | float
    partition: str | float
    placement: str | float


@dataclass(frozen=True, slots=True)
class Off:
    """Elements that are not what real arithmetic gives, and by how many steps of their type at
    most; within what is promised, so no mismatches."""

    elements: int
    steps: int


@dataclass(frozen=True, slots=True)
class Checked:
    """A rung of the verification ladder; `note`: what else there is to say; `measured`: how far
    elements are from real arithmetic, on rungs that measure it."""

    step: str
    tensors: int
    elements: int
    mismatches: int
    note: str = ""
    measured: Off | None = None


@dataclass(frozen=True, slots=True)
class Striped:
    """A cascade that runs stripe by stripe: how many layers, at most how many rows a stripe, and
    in how many calls of kernels."""

    layers: int
    rows: int
    calls: int


@dataclass(frozen=True, slots=True)
class Requantised:
    """A layer with weights: its kernel, and output channels by class of requantisation."""

    layer: str
    kernel: str
    classes: Mapping[str, int]


@dataclass(frozen=True, slots=True, repr=False)
class Report(Brief):
    """What is known of a compiled model; `engines` and `left_to_cpu`, where it has accelerators.
    `numbers_assumed`: its scales are made up (`--assume-int8`), its answers mean nothing;
    `free_bytes`: of memories whose bytes are not to be saved, as those of accelerators, by name;
    `optimize`: the goal that selected the point, and `alternatives` to that point."""

    model: str
    target: str
    ram_bytes: Ram
    flash_bytes: Flash
    macs: Macs
    cycles: Cycles
    instructions: Instructions
    frontier: tuple[Point, ...]
    optimality: Optimality
    ram_bytes_streamed_input: int | None = None
    cascades: tuple[Striped, ...] = ()
    verified: tuple[Checked, ...] = ()
    stack_bytes_measured: int | None = None
    engines: tuple[EngineWork, ...] = ()
    left_to_cpu: tuple[LeftToCpu, ...] = ()
    requantisation: tuple[Requantised, ...] = ()
    constant_channels: tuple[ConstantChannels, ...] = ()
    numbers_assumed: bool = False
    free_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    optimize: str = "balanced"
    alternatives: tuple[Alternative, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """The report as report.json has it."""
        return {"schema": SCHEMA, **dataclasses.asdict(self)}


@dataclass(frozen=True, slots=True, repr=False)
class Layer(Brief):
    """A part of the schedule, as reports show it.

    `step`: its number in the program, as in the C; None: the caller hands its rows over.
    `requantisation`: output channels by its class, where there are weights.
    `macs`: those executed; `constant`: output channels that do not depend on the input, if any.
    `cascade`: which of the cascades that run stripe by stripe it is in, and `rows`: how many of its
    rows a stripe has at most; None where it runs whole.  `reads`: the layers that it reads, by
    their places among the layers, -1: the caller.  `offloaded`: the engine is an accelerator;
    `breakdown`: what its calls need of the accelerator's resources, where its author says so;
    `traffic`: by what they are, the bytes that they move, where the author says so."""

    step: int | None
    name: str
    kind: str
    origin: str
    shape: tuple[int, ...]
    cascade: int | None
    rows: int | None
    reads: tuple[int, ...]
    calls: int
    macs: int
    read_bytes: int
    written_bytes: int
    cycles: int
    engine: str
    offloaded: bool
    kernel: str = ""
    requantisation: Mapping[str, int] = field(default_factory=dict[str, int])
    breakdown: Breakdown | None = None
    traffic: Mapping[str, int] = field(default_factory=dict[str, int])
    constant: ConstantChannels | None = None

    @property
    def moved_bytes(self) -> int:
        """Bytes of the regions that its kernel is called on; of an accelerator whose author says
        what it moves, those."""
        return sum(self.traffic.values()) or self.read_bytes + self.written_bytes

    @property
    def limit(self) -> str | None:
        """The resource that limits it, where the accelerator's author says so."""
        return self.breakdown and self.breakdown.limit

    @property
    def utilisation(self) -> float | None:
        """Of the accelerator's multipliers, in [0, 1], where its author says how many there are."""
        return self.breakdown and self.breakdown.utilisation(self.macs, self.cycles)


def layers(schedule: Schedule, program: Program) -> tuple[Layer, ...]:
    """The parts of a schedule with their costs, in the order of the program's steps."""
    numbers = {step.output.tensor: number for step, number in steps(program).items()}
    found: list[tuple[Part, Cost, Plan, int | None]] = []
    cascade = 0
    for plan in schedule.plans:
        number = None if plan.stripe is None else cascade
        cascade += plan.stripe is not None
        served = (plan.served(k, schedule.parts.parts[k]) for k in plan.parts)
        pairs = zip(served, plan.costs, strict=True)
        some = [(part, cost, plan, number) for part, cost in pairs]
        found += sorted(some, key=lambda item: numbers.get(item[0].name, -1))
    owners, needed = schedule.parts.owners, spent(schedule)
    constant, making = constant_by_layer(schedule), producers(schedule.parts.graph)
    places = {owners[part.name]: place for place, (part, *_) in enumerate(found)}
    return tuple(
        Layer(
            numbers.get(part.name),
            part.name,
            *part.kind_and_origin,
            logical_shape(part.output, making),
            number,
            None if plan.stripe is None else min(plan.stripe, row_count(part.output.type.shape)),
            tuple(dict.fromkeys(places.get(owners[v.name], -1) for v in part.variable_inputs)),
            cost.calls,
            cost.macs,
            total(cost.read_bytes),
            total(cost.written_bytes),
            cost.cycles,
            part.engine,
            is_offloaded(part),
            part.kernel.name,
            classes_of(part),
            needed.get(part.name, _NOTHING).breakdown,
            dict(needed.get(part.name, _NOTHING).traffic),
            constant.get(part.name),
        )
        for part, cost, plan, number in found
    )


def classes_of(part: Part) -> Mapping[str, int]:
    """Output channels by class of requantisation."""
    return dict(sorted(Counter(part.kernel.classes).items()))


def striped(schedule: Schedule) -> tuple[Striped, ...]:
    """The cascades of a schedule that run stripe by stripe, in order."""
    return tuple(
        Striped(len(plan.parts), plan.stripe, plan.cost.calls)
        for plan in schedule.plans
        if plan.stripe is not None
    )


def weight_bytes(program: Program) -> int:
    """Bytes of constants: the model's tensors, the kernels' tables, those of rows and of bounds."""
    constants = (b for b in program.buffers if b.kind is Kind.CONSTANT)
    folded = folded_constants(program)
    tensors = sum(b.size_bytes for b in constants if b.name not in folded)
    kernels = sum(step.kernel.table_bytes for step in steps(program) if not step.body)
    return tensors + kernels + table_bytes(program)


def make_report(
    model: Graph,
    target: str,
    schedule: Schedule,
    placement: Placement,
    program: Program,
    free_bytes: Mapping[str, int],
    stack_bytes: int,
    frontier: tuple[Point, ...],
    streamed_bytes: int,
) -> Report:
    """The report of a compilation; measured figures are added by who measures.

    `free_bytes`: by memory, bytes that need not be saved; `streamed_bytes`: the least total where
    the input is streamed."""
    cost = schedule.cost
    weights = weight_bytes(program)
    arena, *others = (m.size_bytes for m in program.ram() if m.name not in free_bytes)
    ram = Ram(
        total=arena + sum(others) + stack_bytes,
        arena=arena,
        static=sum(others),  # the model's objects have no data but these blocks
        stack=stack_bytes,
        io=_bytes_of(program, Kind.IO),
        scratch=max((plan.scratch_bytes for plan in schedule.plans), default=0),
    )
    return Report(
        model.name,
        target,
        ram,
        Flash(weights, weights, None),
        Macs(
            model.macs(), cost.macs, cost.constant_macs + folded_macs(model, schedule.parts.graph)
        ),
        Cycles(cost.cycles, None),
        Instructions(None),
        frontier,
        Optimality(
            certificate(schedule.gaps.order),
            certificate(schedule.gaps.partition),
            certificate(placement.gap),
        ),
        streamed_bytes,
        striped(schedule),
        engines=engine_work(schedule),
        left_to_cpu=left_to_cpu(schedule),
        requantisation=tuple(
            Requantised(part.name, part.kernel.name, classes_of(part))
            for part in schedule.steps
            if part.kernel.classes
        ),
        constant_channels=tuple(constant_by_layer(schedule).values()),
        free_bytes=free_bytes,
    )


def _bytes_of(program: Program, kind: Kind) -> int:
    """Bytes of all memories that buffers of a kind occupy at any time."""
    total = 0
    for memory in program.ram():
        inside = (b for b in program.buffers if b.kind is kind and b.memory == memory.name)
        end = 0
        for lower, upper in sorted((b.address, b.address + b.size_bytes) for b in inside):
            total += max(0, upper - max(lower, end))
            end = max(end, upper)
    return total


def certificate(gap: float) -> str | float:
    """ "optimal" where the gap is proven to be nothing, else the gap."""
    return "optimal" if gap == 0.0 else gap
