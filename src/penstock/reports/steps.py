"""The steps of a schedule as records: costs, attributes, tensors, constant channels, resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod

from penstock.frozen import frozen
from penstock.ir.breakdown import Breakdown
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Kernel
from penstock.ops.pad import Pad
from penstock.program.program import Program
from penstock.program.steps import steps
from penstock.reports.layer import BandRange, ConstantChannels, LayerTensor, Step, TensorRole
from penstock.scheduling.bands.band_schedule import band_stripes
from penstock.scheduling.model.bands import Band, Bands
from penstock.scheduling.model.cost import NOTHING, Cost, total
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import update_name
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stripe import Stripes, count_elements, highest_stripe, whole_tensor
from penstock.scheduling.simulate.cost_accounting import cold_calls
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule

# The steps of a schedule with their costs: parts, or the parts of each sequence of equal bands.


@frozen
class CostedStep:
    """A part with the kernel that runs, and the cost of its calls.

    tensor: name of the tensor that it computes, or of which it computes columns.
    inputs: names of the tensors that it reads, constants left out.
    stripes: the stripe of each call.
    in_cascade: whether its plan runs in stripes; otherwise, each part computes its output at once.
    bands: the bands of columns that it computes; None for all columns.
    number: its number in the program, see `numbered_steps`; None for a streamed input, whose rows
        the caller supplies, and for bands that are calls of the step of other bands.
    cascade: number of its cascade among those that run in stripes; None if it runs whole.
    """

    tensor: str
    part: Part
    cost: Cost
    inputs: tuple[str, ...]
    stripes: Stripes
    in_cascade: bool
    bands: BandRange | None = None
    number: int | None = None
    cascade: int | None = None

    @property
    def moves(self) -> bool:
        """Whether it moves columns that a band has kept for the next one, instead of computing."""
        return self.tensor in self.inputs


def numbered_steps(schedule: Schedule, program: Program) -> tuple[CostedStep, ...]:
    """Return the steps of a schedule with their numbers, cascade by cascade and within a cascade in
    the order of the program; last, the updates of states."""
    waiting: dict[tuple[str, str], list[int]] = {}
    for call, number in steps(program).items():
        last = call.members[-1] if call.members else call
        waiting.setdefault((call.output.tensor, last.op.kind), []).append(number)

    def numbered(step: CostedStep, cascade: int | None) -> CostedStep:
        numbers = waiting.get((step.tensor, step.part.kind_and_origin[0]))
        return replace(step, number=numbers.pop(0) if numbers else None, cascade=cascade)

    found: list[CostedStep] = []
    cascades = 0
    expanded = ExpandedSchedule(schedule)
    for cascade in expanded.cascades:
        costed = costed_steps(schedule, cascade)
        in_stripes = costed[0].in_cascade
        some = [numbered(step, cascades if in_stripes else None) for step in costed]
        found += sorted(some, key=lambda one: -1 if one.number is None else one.number)
        cascades += in_stripes
    for part, cost in zip(schedule.parts.updates, schedule.updating, strict=True):
        name = update_name(schedule.parts, part.output)
        read = tuple(v.name for v in part.variable_inputs)
        stripes = (whole_tensor(part.output.shape),)
        found.append(numbered(CostedStep(name, part, cost, read, stripes, False), None))
    return tuple(found)


def costed_steps(schedule: Schedule, cascade: ExpandedCascade) -> tuple[CostedStep, ...]:
    """Return the steps of a cascade of a schedule, in the order of its plan."""
    plan = cascade.plan
    found: list[CostedStep] = []
    for k, cost, stripes in zip(plan.parts, plan.costs, cascade.stripes, strict=True):
        part = plan.with_selected_kernel(k, schedule.parts.parts[k])
        bands = schedule.find_bands(part)
        if bands is not None:
            found += _steps_in_bands(schedule, bands, cascade)
        else:
            read = tuple(v.name for v in part.variable_inputs)
            in_stripes = plan.stripe is not None
            found.append(CostedStep(part.name, part, cost, read, stripes, in_stripes))
    return tuple(found)


def _steps_in_bands(
    schedule: Schedule, bands: Bands, cascade: ExpandedCascade
) -> Iterator[CostedStep]:
    """The steps of parts in bands; the cost is that of all equal bands together."""
    for band, found in band_ranges(schedule, bands.name):
        tensors = band.tensors
        stripes = band_stripes(bands, band, cascade, schedule.memory)
        for k, cost in zip(band.plan.parts, band.plan.costs, strict=True):
            part = band.plan.with_selected_kernel(k, band.parts.parts[k])
            yield CostedStep(
                tensors[part.name],
                part,
                sum([cost] * band.count, NOTHING),
                tuple(tensors[v.name] for v in part.variable_inputs),
                stripes[part.name],
                bands.call_rows is not None or band.plan.stripe is not None,
                found,
            )


def band_ranges(schedule: Schedule, name: str) -> Iterator[tuple[Band, BandRange]]:
    """Yield each sequence of equal bands in which a part of a schedule runs, and its range."""
    chains = [bands.name for bands in schedule.bands if bands.call_rows is not None]
    bands = next(bands for bands in schedule.bands if bands.name == name)
    chain = None if bands.call_rows is None else chains.index(name)
    total = sum(band.count for band in bands.bands)
    lower = 0
    for band in bands.bands:
        yield band, BandRange(chain, lower, lower + band.count, total)
        lower += band.count


WEIGHTS = 1  # Index of the input that holds the weights, for operators with constant channels.


@dataclass(slots=True)
class ResourceUse:
    """The sum over all calls of a layer.

    `breakdown` is the use of resources, or None if the cost function does not state it. `traffic`
    is the number of bytes moved by category, empty if not stated.
    """

    breakdown: Breakdown | None = None
    traffic: Counter[str] = field(default_factory=Counter[str])

    def add(
        self, kernel: Kernel, first: int, end: int, memories: tuple[str, ...], *, cold: bool
    ) -> None:
        """Add a call for the output rows [first, end). See `Kernel` for the memory assignment of
        its tensors. `cold`: whether the call runs after a command of another engine."""
        found = kernel.cycles(end - first, memories) if kernel.cycles else None
        if isinstance(found, Breakdown):
            found = found.cold if cold else found
            self.breakdown = self.breakdown + found if self.breakdown else found
        if kernel.traffic:
            self.traffic.update(kernel.traffic(first, end))


_NOTHING = ResourceUse()


def layers(schedule: Schedule, program: Program) -> tuple[Step, ...]:
    """Return the steps with their costs, in the order of the program; updates last."""
    found = numbered_steps(schedule, program)
    owners = dict(schedule.assigned_parts.owners) | dict(schedule.parts.owners)
    needed, constant = resource_use(schedule), constant_by_layer(schedule)
    making = producers(schedule.parts.graph)
    factors, sizes = _factors(found), _buffer_bytes(program)
    whole = {node.name: node for node in schedule.assigned_parts.graph.nodes}

    def step(one: CostedStep, reads: tuple[int, ...]) -> Step:
        part, cost = one.part, one.cost
        kind, origin = part.kind_and_origin
        use = needed.get(one.tensor, _NOTHING)
        node = part.nodes[-1] if part.nodes else None
        inputs, output = part.inputs, part.output
        if one.bands is not None and one.tensor in whole:  # the node that computes all columns
            node = whole[one.tensor]
            inputs, output = node.inputs, node.output
        return Step(
            step=one.number,
            name=one.tensor,
            kind=kind,
            origin=origin,
            shape=logical_shape(part.output, making),
            cascade=one.cascade,
            rows=highest_stripe(one.stripes) if one.in_cascade else None,
            reads=reads,
            calls=cost.calls,
            macs=cost.macs,
            read_bytes=total(cost.read_bytes),
            written_bytes=total(cost.written_bytes),
            cycles=cost.cycles,
            engine=part.engine,
            offloaded=is_offloaded(part),
            kernel=part.kernel.name,
            requantisation=requantisation_classes(part),
            breakdown=use.breakdown,
            traffic=dict(use.traffic),
            constant=constant.get(one.tensor),
            stripes=one.stripes,
            buffer_bytes=sizes.get(one.number),
            bands=one.bands,
            factor=factors[one.tensor],
            attributes=() if node is None else node.op.stated_attributes(),
            tensors=tensors(inputs, output, making),
            moves=one.moves,
        )

    return tuple(map(step, found, _reads(found, owners)))


def _factors(found: Sequence[CostedStep]) -> Mapping[str, float]:
    # Columns that a band keeps for the next one are moved, not computed.
    computed: Counter[str] = Counter()
    elements: dict[str, int] = {}
    for one in found:
        if not one.moves:
            computed[one.tensor] += count_elements(one.stripes)
        elements[one.tensor] = prod(one.stripes[0].extent) if one.stripes else 0
    return {name: computed[name] / size if size else 1.0 for name, size in elements.items()}


def _buffer_bytes(program: Program) -> Mapping[int | None, int]:
    return {
        number: program.buffer(call.output.buffer).size_bytes
        for call, number in steps(program).items()
    }


def _reads(found: Sequence[CostedStep], owners: Mapping[str, str]) -> Iterator[tuple[int, ...]]:
    """The indices of the steps that each step reads: of those that write a tensor, such as
    the bands of a cascade, the last one before it; -1 for the caller."""
    places: dict[str, int] = {}
    for place, one in enumerate(found):
        yield tuple(dict.fromkeys(places.get(owners[name], -1) for name in one.inputs))
        if one.tensor in owners:
            places[owners[one.tensor]] = place


def requantisation_classes(part: Part) -> Mapping[str, int]:
    """Return the number of output channels per requantisation class."""
    return dict(sorted(Counter(part.kernel.classes).items()))


def tensors(
    inputs: Iterable[Value], output: Value, producers: Mapping[str, Node]
) -> tuple[LayerTensor, ...]:
    """Return the inputs of a layer, constants included, and its output.

    `producers` are the nodes that compute tensors, by name.
    """
    read = (
        _tensor(TensorRole.INPUT if value.data is None else TensorRole.CONSTANT, value, shape)
        for value in inputs
        for shape in (logical_shape(value, producers),)
    )
    return (*read, _tensor(TensorRole.OUTPUT, output, logical_shape(output, producers)))


def _tensor(role: TensorRole, value: Value, shape: tuple[int, ...]) -> LayerTensor:
    type, stated = value.type, value.quantisation
    known = (role, value.name, shape, type.dtype.value, type.size_bytes)
    if stated is None:
        return LayerTensor(*known)
    scales, zero_points = tuple(stated.scales), set(stated.zero_points)
    return LayerTensor(
        *known,
        (min(scales), max(scales)),
        len(scales),
        zero_points.pop() if len(zero_points) == 1 else None,
        tuple(float(f"{scale:.6g}") for scale in scales) if len(scales) > 1 else (),
    )


def producers(graph: Graph) -> Mapping[str, Node]:
    """Return the node that computes each tensor, by name of the tensor, including nodes in
    composites."""
    return {node.output.name: node for node in _every_node(graph.nodes)}


def _every_node(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node.op, Composite):  # after it: its last node computes the same tensor
            yield from _every_node(node.op.nodes)


def logical_shape(value: Value, producers: Mapping[str, Node]) -> tuple[int, ...]:
    """Return the shape of a tensor without layout.

    For a tensor in channel blocks, that is the shape of the unpacked tensor, without the channels
    that pad the last block.
    """
    blocks, node = value.type.layout, producers.get(value.name)
    if blocks is None or node is None:
        return value.shape
    image = node.inputs[0]
    if image.type.layout is not None:  # an element-wise operator on blocks
        return logical_shape(image, producers)
    before = producers.get(image.name)
    if before is None or not isinstance(before.op, Pad):
        return image.shape
    whole = before.inputs[0].shape
    filled = -(-whole[-1] // blocks.size) * blocks.size
    return whole if (*whole[:-1], filled) == image.shape else image.shape


def constant_channels(part: Part) -> ConstantChannels | None:
    """Return the constant channels of a part, or None if it has none."""
    kernel = part.kernel
    if not kernel.constant_channels:
        return None
    count = part.output.shape[-1]
    weights = part.inputs[WEIGHTS]
    dropped = weights.type.size_bytes // count * len(kernel.constant_channels)
    return ConstantChannels(
        part.name,
        kernel.constant_channels,
        count,
        weights.name,
        kernel.skips_constant,
        dropped if kernel.skips_constant else 0,
    )


def constant_by_layer(schedule: Schedule) -> Mapping[str, ConstantChannels]:
    every = ((part.name, constant_channels(part)) for part in schedule.steps)
    return {name: found for name, found in every if found is not None}


def is_offloaded(part: Part) -> bool:
    """Return whether an accelerator runs a part."""
    return part.kernel.body is not None


def resource_use(schedule: Schedule) -> Mapping[str, ResourceUse]:
    """Return the use of each part that an accelerator runs, by name of the part."""
    steps = schedule.steps
    kernels = [_cached(part.kernel) if is_offloaded(part) else None for part in steps]
    if not any(kernels):
        return {}
    owners = schedule.parts.owners
    operands = [schedule.memory.for_part(part, owners).operand_regions(part) for part in steps]
    found: dict[str, ResourceUse] = {}
    cascades = ExpandedSchedule(schedule).cascades
    for cascade, flags in zip(cascades, cold_calls(cascades), strict=True):
        calls = cascade.calls[:, :3].tolist()
        for (position, first, end), cold in zip(calls, flags.tolist(), strict=True):
            kernel, name = kernels[position], steps[position].name
            if kernel is not None:
                use = found.setdefault(name, ResourceUse())
                use.add(kernel, first, end, operands[position], cold=cold)
    for plan in schedule.plans:
        for k, breakdown in zip(plan.parts, plan.breakdowns, strict=False):
            if breakdown is not None:
                found[schedule.parts.parts[k].name].breakdown = breakdown
    return found


def _cached(kernel: Kernel) -> Kernel:
    return replace(kernel, cycles=kernel.cycles and cache(kernel.cycles))
