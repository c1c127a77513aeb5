"""The layers of a compiled network, as reports show them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from penstock.brief import Brief
from penstock.ir.breakdown import Breakdown
from penstock.ir.graph import Node
from penstock.ir.stated_attribute import StatedAttribute
from penstock.program.program import Program
from penstock.program.steps import steps
from penstock.reports.band_range import BandRange
from penstock.reports.constant_channels import ConstantChannels, constant_by_layer
from penstock.reports.costed_steps import CostedStep, numbered_steps
from penstock.reports.engine_work import is_offloaded
from penstock.reports.json_value import Json
from penstock.reports.layer_tensor import LayerTensor, TensorRole, tensors
from penstock.reports.logical_shape import logical_shape, producers
from penstock.reports.resource_use import ResourceUse, resource_use
from penstock.scheduling.model.cost import total
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.row_stripes import Stripes, count_elements, highest_stripe
from penstock.scheduling.model.schedule import Schedule

_NOTHING = ResourceUse()


@dataclass(frozen=True, slots=True, repr=False)
class LayerReport(Brief):
    """A step of the schedule: a part, or the part of equal bands, as reports show it.

    `step` is its step number in the program and in the C code, or None if the caller supplies its
    rows or the call of a later layer in its region computes it. `requantisation` counts output
    channels per class, for layers with weights. `macs` are the executed ones; `constant` describes
    output channels that do not depend on the input. `cascade` is the index of its cascade and
    `rows` the maximum rows per stripe; both are None if the layer runs whole. `stripes` are the
    stripes of its output, one per call. `reads` are the indices of the layers that it reads; -1 is
    the caller. `offloaded` is True if the engine is an accelerator. `buffer_bytes` is the size of
    the buffer of its output. `bands` are the bands of columns that it computes, or None for all
    columns. `factor` is F of the layer: computed elements as a multiple of those of its output,
    over all bands. `moves` tells that it moves columns that a band has kept for the next one.
    `breakdown` is the use of the accelerator's resources, and `traffic` the bytes
    that it moves by category, if the backend reports them. `attributes` are those of its operator,
    `tensors` the whole tensors that it reads and writes.
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
    stripes: Stripes = ()
    buffer_bytes: int | None = None
    bands: BandRange | None = None
    factor: float = 1.0
    attributes: tuple[StatedAttribute, ...] = ()
    tensors: tuple[LayerTensor, ...] = ()
    moves: bool = False

    @property
    def place(self) -> str:
        """The node in the model file, such as `node 3 CONV_2D`; empty if the file has none."""
        return self.origin.split(": ", 1)[-1]

    @property
    def constant_bytes(self) -> int:
        """Bytes of weights, bias and other constants, as the model stores them."""
        return sum(one.size_bytes for one in self.tensors if one.role is TensorRole.CONSTANT)

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

    def as_json(self) -> dict[str, Json]:
        """Return the layer as a JSON object, with what limits it if the backend states that."""
        row: dict[str, Json] = dataclasses.asdict(self)
        row["tensors"] = [tensor.as_json() for tensor in self.tensors]
        if self.breakdown is not None:
            row["limited_by"], row["utilisation"] = self.limit, self.utilisation
        return row


def layers(schedule: Schedule, program: Program) -> tuple[LayerReport, ...]:
    """Return the layers with their costs, in the order of the program's steps; updates last."""
    found = numbered_steps(schedule, program)
    owners = dict(schedule.assigned_parts.owners) | dict(schedule.parts.owners)
    needed = resource_use(schedule)
    constant, making = constant_by_layer(schedule), producers(schedule.parts.graph)
    reads = _reads([one.step for one in found], owners)
    factors, sizes = _factors([one.step for one in found]), _buffer_bytes(program)
    whole = {node.name: node for node in schedule.assigned_parts.graph.nodes}
    return tuple(
        LayerReport(
            number,
            one.tensor,
            *one.part.kind_and_origin,
            logical_shape(one.part.output, making),
            cascade_number,
            highest_stripe(one.stripes) if one.in_cascade else None,
            read,
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
            one.stripes,
            sizes.get(number),
            one.bands,
            factors[one.tensor],
            *_operator_facts(one, whole.get(one.tensor), making),
            one.moves,
        )
        for (number, one, cascade_number), read in zip(
            ((x.number, x.step, x.cascade) for x in found), reads, strict=True
        )
    )


def _operator_facts(
    step: CostedStep, whole: Node | None, making: Mapping[str, Node]
) -> tuple[tuple[StatedAttribute, ...], tuple[LayerTensor, ...]]:
    """Return the attributes of a step's operator and its tensors; those of bands are `whole`, the
    node that computes all columns."""
    part = step.part
    if step.bands is None or whole is None:
        found = tensors(part.inputs, part.output, making)
        return tuple(x for node in part.nodes[-1:] for x in node.op.stated_attributes()), found
    return whole.op.stated_attributes(), tensors(whole.inputs, whole.output, making)


def _factors(found: Sequence[CostedStep]) -> Mapping[str, float]:
    """Return F of each tensor, by name: computed elements as a multiple of its elements.

    Columns that a band keeps for the next one are moved, not computed."""
    computed: Counter[str] = Counter()
    elements: dict[str, int] = {}
    for one in found:
        if not one.moves:
            computed[one.tensor] += count_elements(one.stripes)
        elements[one.tensor] = prod(one.stripes[0].extent) if one.stripes else 0
    return {name: computed[name] / size if size else 1.0 for name, size in elements.items()}


def _buffer_bytes(program: Program) -> Mapping[int | None, int]:
    """Return the size of the buffer of each step's output, by step number."""
    return {
        number: program.buffer(call.output.buffer).size_bytes
        for call, number in steps(program).items()
    }


def _reads(found: Sequence[CostedStep], owners: Mapping[str, str]) -> Iterator[tuple[int, ...]]:
    """Yield the indices of the steps that each step reads: of those that write a tensor, such as
    the bands of a cascade, the last one before it; -1 for the caller."""
    places: dict[str, int] = {}
    for place, one in enumerate(found):
        yield tuple(dict.fromkeys(places.get(owners[name], -1) for name in one.inputs))
        if one.tensor in owners:
            places[owners[one.tensor]] = place


def requantisation_classes(part: Part) -> Mapping[str, int]:
    """Return the number of output channels per requantisation class."""
    return dict(sorted(Counter(part.kernel.classes).items()))
