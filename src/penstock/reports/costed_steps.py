"""The steps of a schedule with their costs: parts, or the parts of each sequence of equal bands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from penstock.program.program import Program
from penstock.program.steps import steps
from penstock.reports.layer import BandRange
from penstock.scheduling.bands.tensor_configs import band_stripes
from penstock.scheduling.model.bands import Band, Bands
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import update_name
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stripe import Stripes, whole_tensor
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule


@dataclass(frozen=True, slots=True)
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
        waiting.setdefault((call.output.tensor, call.op.kind), []).append(number)

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
        found += sorted(some, key=partial(_place, {one.tensor: one.number for one in some}))
        cascades += in_stripes
    for part, cost in zip(schedule.parts.updates, schedule.updating, strict=True):
        name = update_name(schedule.parts, part.output)
        read = tuple(v.name for v in part.variable_inputs)
        stripes = (whole_tensor(part.output.type.shape),)
        found.append(numbered(CostedStep(name, part, cost, read, stripes, False), None))
    return tuple(found)


def _place(numbers: Mapping[str, int | None], one: CostedStep) -> int:
    """Return the sort key of a step of a cascade: its number, or that of the tensor it copies out.

    numbers: number of the step that computes each tensor, by name of the tensor.
    """
    copy = one.part.row_copy
    out = copy is not None and copy.out
    number = numbers[one.inputs[0]] if out else one.number
    return -1 if number is None else number


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
            if part.row_copy is not None and part.row_copy.out:
                read = (part.name,)  # the tensor; its label is that of the part that computes it
            in_stripes = plan.stripe is not None
            found.append(CostedStep(part.label, part, cost, read, stripes, in_stripes))
    return tuple(found)


def _steps_in_bands(
    schedule: Schedule, bands: Bands, cascade: ExpandedCascade
) -> Iterator[CostedStep]:
    """Yield the steps of parts in bands; the cost is that of all equal bands together.

    cascade: the cascade of the schedule that contains the part that stands for them.
    """
    for band, found in band_ranges(schedule, bands.name):
        tensors = {section.value: section.tensor for section in band.sections}
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
    """Yield each sequence of equal bands in which a part of a schedule runs, and its range.

    name: name of the part.
    """
    chains = [bands.name for bands in schedule.bands if bands.call_rows is not None]
    bands = next(bands for bands in schedule.bands if bands.name == name)
    chain = None if bands.call_rows is None else chains.index(name)
    total = sum(band.count for band in bands.bands)
    lower = 0
    for band in bands.bands:
        yield band, BandRange(chain, lower, lower + band.count, total)
        lower += band.count
