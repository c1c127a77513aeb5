"""The contents of report.json. The keys are a stable interface; there are no times among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.brief import Brief
from penstock.ir.graph import Graph
from penstock.memory.problem import Placement
from penstock.optional import Dropped
from penstock.program.program import Kind, Program
from penstock.program.stored_constants import weight_bytes
from penstock.reports.command import CompileCommand
from penstock.reports.constant_channels import ConstantChannels, constant_by_layer, folded_macs
from penstock.reports.costed_steps import costed_steps
from penstock.reports.engine_work import (
    CycleCounts,
    EngineWork,
    FallbackReport,
    engine_work,
    left_to_cpu,
)
from penstock.reports.interface_tensor import ModelInterface, model_interface
from penstock.reports.json_value import Json
from penstock.reports.layer_report import requantisation_classes
from penstock.reports.times import times
from penstock.revision import described
from penstock.scheduling.model.row_stripes import count_stripes, highest_stripe
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule

SCHEMA = "penstock-report-1"


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
    """Flash in bytes. `code` is None if nothing was cross-compiled; `weights` are
    the constants as kernels store them, with their tables; `model` are those of the model."""

    total: int
    weights: int
    code: int | None
    model: int = 0


@dataclass(frozen=True, slots=True)
class Macs:
    """Nominal multiply-accumulates: of the model, executed by the schedule, and omitted because
    their results do not depend on the input."""

    model: int
    executed: int
    constant: int

    @property
    def factor(self) -> float:
        """F: executed multiply-accumulates, those omitted included, as a multiple of the model's; 1
        if nothing is computed twice."""
        return (self.executed + self.constant) / self.model if self.model else 1.0


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
    """RAM and cycles that the same command yields with other options. `condition` is what these
    options demand of the caller, if anything."""

    options: str
    ram_bytes: int
    cycles: int
    condition: str = ""


@dataclass(frozen=True, slots=True)
class SmallerKernels:
    """A core family whose kernels are slower, and about how many bytes of flash they save."""

    kernels: str
    saved_bytes: int


@dataclass(frozen=True, slots=True)
class Optimality:
    """Certificates: "optimal", or a proved upper bound of the relative gap to the minimum."""

    order: str | float
    partition: str | float
    placement: str | float


@dataclass(frozen=True, slots=True)
class RealDifference:
    """Elements that differ from a reference that rounds otherwise, and the largest difference in
    quantisation steps. Within the tolerance, they do not count as mismatches."""

    elements: int
    steps: int


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A tensor that the reference computes from penstock's own tensors. `node` computes it;
    `group` lists all nodes of the model that are compared as one. Of `elements`, `differing`
    differ, by at most `steps`; `mismatches` differ by more than is accepted. `exception` is the
    documented deviation that applies, if there is one."""

    node: str
    group: tuple[str, ...]
    tensor: str
    elements: int
    differing: int
    steps: int
    mismatches: int
    exception: str


@dataclass(frozen=True, slots=True)
class RungReport:
    """A rung of the verification ladder. `mismatches` is None if the rung was not run. `note` is
    additional text; `measured` is the difference from the reference, on rungs that measure it, and
    `nodes` lists it node by node."""

    step: str
    tensors: int
    elements: int
    mismatches: int | None
    note: str = ""
    measured: RealDifference | None = None
    nodes: tuple[NodeReport, ...] = ()


@dataclass(frozen=True, slots=True)
class CascadeReport:
    """A cascade that runs in stripes: number of layers, maximum rows per stripe, kernel calls."""

    layers: int
    rows: int
    calls: int


@dataclass(frozen=True, slots=True)
class PortableLayer:
    """A layer that runs in portable C and takes a notable share of the estimated cycles, in [0, 1].

    kernels: the core family of the target, which has kernels, but none that can run the layer.
    needs: what its kernel for the operator needs and the layer lacks; empty if it has none."""

    layer: str
    operator: str
    share: float
    kernels: str
    needs: str


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
    selected the point; `alternatives` are the results of other options. `version` and `commit` are
    those of penstock; the commit is empty if it is not known. `command` states the request.
    `clock_hz` is the clock of the target, if known. `smaller_kernels` save much flash, if there are
    any. `interface` lists the inputs and outputs of the generated code. `optimised_for` is what the
    C compiler optimises: "speed" (-O3) or "size" (-Os); estimated cycles are always those of -O3.
    `portable_layers` take many cycles because the core family has no kernel for them.
    `dropped` lists optional work that failed because of a defect of penstock.
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
    command: CompileCommand
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
    version: str = ""
    commit: str = ""
    clock_hz: int | None = None
    smaller_kernels: SmallerKernels | None = None
    interface: ModelInterface = field(default_factory=ModelInterface)
    optimised_for: str = "speed"
    portable_layers: tuple[PortableLayer, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    @property
    def estimated_note(self) -> str:
        """A continuation of "estimated" that states for which flags, where the code has others."""
        return " for -O3" if self.optimised_for == "size" else ""

    @property
    def compiler(self) -> str:
        """The compiler, with its version, and its commit if that is known."""
        return f"penstock {described(self.version, self.commit)}"

    def as_json(self) -> dict[str, Json]:
        """Return the contents of report.json."""
        found: dict[str, Json] = {"schema": SCHEMA, **dataclasses.asdict(self)}
        found |= times(self.cycles, self.clock_hz)
        found["command"] = str(self.command)
        found["alternatives"] = [
            {**dataclasses.asdict(one), "command": str(self.command.with_options(one.options))}
            for one in self.alternatives
        ]
        return found


def striped(schedule: Schedule) -> tuple[CascadeReport, ...]:
    """Return the cascades of a schedule that run in stripes, in order."""
    if not schedule.bands and all(plan.stripe is None for plan in schedule.plans):
        return ()
    cascades = ExpandedSchedule(schedule).cascades
    every = (costed_steps(schedule, cascade) for cascade in cascades)
    found = ([one for one in costed if one.part.row_copy is None] for costed in every)
    return tuple(
        CascadeReport(
            len({one.tensor for one in costed}),
            max(highest_stripe(one.stripes) for one in costed),
            sum(count_stripes(one.stripes) for one in costed),
        )
        for costed in found
        if costed[0].in_cascade
    )


def make_report(
    model: Graph,
    target: str,
    schedule: Schedule,
    placement: Placement,
    program: Program,
    free_bytes: Mapping[str, int],
    stack_bytes: int,
    frontier: tuple[Point, ...],
    command: CompileCommand,
    streamed_bytes: int | None,
) -> Report:
    """Return the report of a compilation. Measured figures are None until the caller adds them.

    `free_bytes` maps memories that do not count as RAM to bytes. `streamed_bytes` is the least
    total RAM with a streamed input; None if that was not planned.
    """
    cost = schedule.cost
    weights = weight_bytes(program)
    constants = sum(v.type.size_bytes for v in schedule.assigned_parts.graph.constants())
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
        Flash(weights, weights, None, constants),
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
        command,
        streamed_bytes,
        striped(schedule),
        engines=engine_work(schedule),
        left_to_cpu=left_to_cpu(schedule),
        requantisation=tuple(
            Requantised(part.label, part.kernel.name, requantisation_classes(part))
            for part in schedule.steps
            if part.kernel.classes
        ),
        constant_channels=tuple(constant_by_layer(schedule).values()),
        free_bytes=free_bytes,
        interface=model_interface(model, schedule.assigned_parts.graph),
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
