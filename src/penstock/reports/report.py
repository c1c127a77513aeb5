"""The contents of report.json. The keys are a stable interface; there are no times among them."""

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
from penstock.reports.costed_steps import costed_steps, numbered_steps
from penstock.reports.engine_work import (
    CycleCounts,
    EngineWork,
    FallbackReport,
    engine_work,
    is_offloaded,
    left_to_cpu,
)
from penstock.reports.logical_shape import logical_shape, producers
from penstock.reports.resource_use import ResourceUse, resource_use
from penstock.scheduling.model.cost import total
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.schedule import Schedule

SCHEMA = "penstock-report-1"
_NOTHING = ResourceUse()
Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class RamUsage:
    """RAM in bytes. `total` is arena + static + stack; `io`, `scratch` and `state` are inside the
    arena. `state` lasts from run to run."""

    total: int
    arena: int
    static: int
    stack: int
    io: int
    scratch: int
    state: int = 0


@dataclass(frozen=True, slots=True)
class Flash:
    """Flash in bytes. `code` is None if nothing was cross-compiled."""

    total: int
    weights: int
    code: int | None


@dataclass(frozen=True, slots=True)
class Macs:
    """Nominal multiply-accumulates: of the model, executed by the schedule, and omitted because
    their results do not depend on the input."""

    model: int
    executed: int
    constant: int


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions executed on a simulated core."""

    simulated: int | None


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the frontier. `chosen` marks the compiled one."""

    ram_bytes: int
    cycles: int
    macs_executed: int
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """RAM and cycles that the same command yields with other options."""

    options: str
    ram_bytes: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Optimality:
    """Certificates: "optimal", or a proved upper bound of the relative gap to the minimum."""

    order: str | float
    partition: str | float
    placement: str | float


@dataclass(frozen=True, slots=True)
class RealDifference:
    """Elements that differ from real arithmetic within the tolerance, and the largest difference in
    quantisation steps. They do not count as mismatches."""

    elements: int
    steps: int


@dataclass(frozen=True, slots=True)
class RungReport:
    """A rung of the verification ladder. `note` is additional text; `measured` is the difference
    from real arithmetic, on rungs that measure it."""

    step: str
    tensors: int
    elements: int
    mismatches: int
    note: str = ""
    measured: RealDifference | None = None


@dataclass(frozen=True, slots=True)
class CascadeReport:
    """A cascade that runs in stripes: number of layers, maximum rows per stripe, kernel calls."""

    layers: int
    rows: int
    calls: int


@dataclass(frozen=True, slots=True)
class Requantised:
    """A layer with weights: its kernel, and the number of output channels per requantisation
    class."""

    layer: str
    kernel: str
    classes: Mapping[str, int]


@dataclass(frozen=True, slots=True, repr=False)
class Report(Brief):
    """The facts about a compiled model that report.json contains.

    `engines` and `left_to_cpu` are empty without accelerators. `numbers_assumed` is True if the
    scales are arbitrary (`--assume-int8`) and outputs are meaningless. `free_bytes` maps memories
    that do not count as RAM, such as those of accelerators, to bytes. `optimize` is the goal that
    selected the point; `alternatives` are the results of other options.
    """

    model: str
    target: str
    ram_bytes: RamUsage
    flash_bytes: Flash
    macs: Macs
    cycles: CycleCounts
    instructions: Instructions
    frontier: tuple[Point, ...]
    optimality: Optimality
    ram_bytes_streamed_input: int | None = None
    cascades: tuple[CascadeReport, ...] = ()
    verified: tuple[RungReport, ...] = ()
    stack_bytes_measured: int | None = None
    engines: tuple[EngineWork, ...] = ()
    left_to_cpu: tuple[FallbackReport, ...] = ()
    requantisation: tuple[Requantised, ...] = ()
    constant_channels: tuple[ConstantChannels, ...] = ()
    numbers_assumed: bool = False
    free_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    optimize: str = "balanced"
    alternatives: tuple[Alternative, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Return the contents of report.json."""
        return {"schema": SCHEMA, **dataclasses.asdict(self)}


@dataclass(frozen=True, slots=True, repr=False)
class LayerReport(Brief):
    """A part of the schedule, with the facts that reports contain.

    `step` is its step number in the program and in the C code, or None if the caller supplies its
    rows. `requantisation` counts output channels per class, for layers with weights. `macs` are the
    executed ones; `constant` describes output channels that do not depend on the input. `cascade`
    is the index of its cascade and `rows` the maximum rows per stripe; both are None if the layer
    runs whole. `reads` are the indices of the layers that it reads; -1 is the caller. `offloaded`
    is True if the engine is an accelerator. `breakdown` is the use of the accelerator's resources,
    and `traffic` the bytes that it moves by category, if the backend reports them.
    """

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
        """Bytes moved: the backend's `traffic`, or else the bytes of the regions that the kernel
        reads and writes."""
        return sum(self.traffic.values()) or self.read_bytes + self.written_bytes

    @property
    def limit(self) -> str | None:
        """The limiting resource, or None if the backend states no breakdown."""
        return self.breakdown and self.breakdown.limit

    @property
    def utilisation(self) -> float | None:
        """Utilisation of the accelerator's multipliers in [0, 1], or None if the backend does not
        state their number."""
        return self.breakdown and self.breakdown.utilisation(self.macs, self.cycles)


def layers(schedule: Schedule, program: Program) -> tuple[LayerReport, ...]:
    """Return the layers with their costs, in the order of the program's steps; updates last."""
    found = numbered_steps(schedule, program)
    owners = dict(schedule.assigned_parts.owners) | dict(schedule.parts.owners)
    needed = resource_use(schedule)
    constant, making = constant_by_layer(schedule), producers(schedule.parts.graph)
    places: dict[str, int] = {}
    for place, one in enumerate(found):
        if one.step.tensor in owners:
            places[owners[one.step.tensor]] = place
    return tuple(
        LayerReport(
            number,
            one.tensor,
            *one.part.kind_and_origin,
            logical_shape(one.part.output, making),
            cascade_number,
            None if one.stripe is None else min(one.stripe, row_count(one.part.output.type.shape)),
            tuple(dict.fromkeys(places.get(owners[name], -1) for name in one.inputs)),
            one.cost.calls,
            one.cost.macs,
            total(one.cost.read_bytes),
            total(one.cost.written_bytes),
            one.cost.cycles,
            one.part.engine,
            is_offloaded(one.part),
            one.part.kernel.name,
            requantisation_classes(one.part),
            needed.get(one.tensor, _NOTHING).breakdown,
            dict(needed.get(one.tensor, _NOTHING).traffic),
            constant.get(one.tensor),
        )
        for number, one, cascade_number in ((x.number, x.step, x.cascade) for x in found)
    )


def requantisation_classes(part: Part) -> Mapping[str, int]:
    """Return the number of output channels per requantisation class."""
    return dict(sorted(Counter(part.kernel.classes).items()))


def striped(schedule: Schedule) -> tuple[CascadeReport, ...]:
    """Return the cascades of a schedule that run in stripes, in order."""
    pairs = ((plan, costed_steps(schedule, plan)) for plan in schedule.plans)
    return tuple(
        CascadeReport(len({one.tensor for one in costed}), costed[0].stripe, plan.cost.calls)
        for plan, costed in pairs
        if costed[0].stripe is not None
    )


def weight_bytes(program: Program) -> int:
    """Return the bytes of constants: tensors of the model, tables of kernels, row tables and tables
    of loop bounds."""
    constants = (b for b in program.buffers if b.kind is Kind.CONSTANT)
    folded = folded_constants(program)
    tensors = sum(b.size_bytes for b in constants if b.name not in folded)
    stored = {
        (step.output.tensor, name, table)  # bands of a tensor share equal tables
        for step in steps(program)
        if not step.body
        for name, table in step.kernel.tables
    }
    kernels = sum(table.type.size_bytes for _, _, table in stored)
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
    """Return the report of a compilation. Measured figures are None until the caller adds them.

    `free_bytes` maps memories that do not count as RAM to bytes. `streamed_bytes` is the least
    total RAM with a streamed input.
    """
    cost = schedule.cost
    weights = weight_bytes(program)
    arena, *others = (m.size_bytes for m in program.ram() if m.name not in free_bytes)
    ram = RamUsage(
        total=arena + sum(others) + stack_bytes,
        arena=arena,
        static=sum(others),  # the objects of the model contain no other data
        stack=stack_bytes,
        io=_kind_bytes(program, Kind.IO),
        scratch=max((plan.scratch_bytes for plan in schedule.plans), default=0),
        state=_kind_bytes(program, Kind.STATE),
    )
    return Report(
        model.name,
        target,
        ram,
        Flash(weights, weights, None),
        Macs(
            model.macs(),
            cost.macs,
            cost.constant_macs + folded_macs(model, schedule.assigned_parts.graph),
        ),
        CycleCounts(cost.cycles, None),
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
            Requantised(part.name, part.kernel.name, requantisation_classes(part))
            for part in schedule.steps
            if part.kernel.classes
        ),
        constant_channels=tuple(constant_by_layer(schedule).values()),
        free_bytes=free_bytes,
    )


def _kind_bytes(program: Program, kind: Kind) -> int:
    """Return the bytes, over all memories, of the union of the buffers of a kind."""
    total = 0
    for memory in program.ram():
        inside = (b for b in program.buffers if b.kind is kind and b.memory == memory.name)
        end = 0
        for lower, upper in sorted((b.address, b.address + b.size_bytes) for b in inside):
            total += max(0, upper - max(lower, end))
            end = max(end, upper)
    return total


def certificate(gap: float) -> str | float:
    """Return "optimal" if the proved gap is zero, or else the gap."""
    return "optimal" if gap == 0.0 else gap
