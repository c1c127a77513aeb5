"""Report: what report.json says; keys as the design's section 7 fixes them, no times in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.ir.graph import Graph
from penstock.memory.problem import Placement
from penstock.program.program import Kind, Program
from penstock.program.steps import lives, steps
from penstock.program.tables import table_bytes
from penstock.scheduling.cost import total
from penstock.scheduling.schedule import Schedule

SCHEMA = "penstock-report-1"
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
    """Nominal multiply-accumulates of the model, and those that the schedule executes."""

    model: int
    executed: int


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles by the cost model, and by the cycle model over the executed instructions."""

    estimated: int
    simulated: int | None


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions that a simulated core executed."""

    simulated: int | None


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the frontier."""

    ram_bytes: int
    cycles: int
    macs_executed: int


@dataclass(frozen=True, slots=True)
class Optimality:
    """ "optimal", or a proven gap: how far, at most, above the least."""

    order: str | float
    partition: str | float
    placement: str | float


@dataclass(frozen=True, slots=True)
class Checked:
    """A rung of the verification ladder."""

    step: str
    tensors: int
    elements: int
    mismatches: int


@dataclass(frozen=True, slots=True)
class Report:
    """What is known of a compiled model."""

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
    verified: tuple[Checked, ...] = ()
    stack_bytes_measured: int | None = None

    def as_json(self) -> dict[str, Json]:
        """The report as report.json has it."""
        return {"schema": SCHEMA, **dataclasses.asdict(self)}


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of the schedule, as reports show it: in which cascade, in how many calls."""

    step: int
    name: str
    kind: str
    origin: str
    shape: tuple[int, ...]
    cascade: int
    calls: int
    macs: int
    read_bytes: int
    written_bytes: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Span:
    """A buffer of the arena: bytes [lower_byte, upper_byte) during steps [first, last]; step -1 is
    the caller before the run, and the number of steps is the caller after it."""

    name: str
    kind: str
    lower_byte: int
    upper_byte: int
    first_step: int
    last_step: int


def layers(schedule: Schedule) -> tuple[Layer, ...]:
    """The parts of a schedule, in its order, with their costs."""
    costs = (cost for plan in schedule.plans for cost in plan.costs)
    cascades = (k for k, plan in enumerate(schedule.plans) for _ in plan.parts)
    found: list[Layer] = []
    for step, (part, cost, cascade) in enumerate(zip(schedule.steps, costs, cascades, strict=True)):
        kind, origin = part.kind_and_origin
        found.append(
            Layer(
                step,
                part.name,
                kind,
                origin,
                part.output.type.shape,
                cascade,
                cost.calls,
                cost.macs,
                total(cost.read_bytes),
                total(cost.written_bytes),
                cost.cycles,
            )
        )
    return tuple(found)


def spans(program: Program) -> tuple[Span, ...]:
    """The buffers of the first memory over the steps."""
    arena = program.ram()[0].name
    alive = lives(program)
    return tuple(
        Span(b.name, b.kind.value, b.address, b.address + b.size_bytes, *alive[b.name])
        for b in program.buffers
        if b.kind is not Kind.CONSTANT and b.memory == arena and b.name in alive
    )


def weight_bytes(program: Program) -> int:
    """Bytes of constants: the model's tensors, the kernels' tables, those of rows and of bounds."""
    tensors = sum(b.size_bytes for b in program.buffers if b.kind is Kind.CONSTANT)
    kernels = sum(step.kernel.table_bytes for step in steps(program))
    return tensors + kernels + table_bytes(program)


def make_report(
    model: Graph,
    target: str,
    schedule: Schedule,
    placement: Placement,
    program: Program,
    stack_bytes: int,
    frontier: tuple[Point, ...],
    streamed_bytes: int,
) -> Report:
    """The report of a compilation; measured figures are added by who measures.

    `streamed_bytes`: the least total where the input is streamed."""
    cost = schedule.cost
    weights = weight_bytes(program)
    arena, *others = (memory.size_bytes for memory in program.ram())
    ram = Ram(
        total=arena + sum(others) + stack_bytes,
        arena=arena,
        static=sum(others),  # the model's objects have no data but these blocks
        stack=stack_bytes,
        io=_bytes_of(program, Kind.IO),
        scratch=_bytes_of(program, Kind.SCRATCH),
    )
    return Report(
        model.name,
        target,
        ram,
        Flash(weights, weights, None),
        Macs(model.macs(), cost.macs),
        Cycles(cost.cycles, None),
        Instructions(None),
        frontier,
        Optimality(
            certificate(schedule.gaps.order),
            certificate(schedule.gaps.partition),
            certificate(placement.gap),
        ),
        streamed_bytes,
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
