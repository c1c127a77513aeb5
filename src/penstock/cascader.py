"""The cascading scheduler: the concepts of TVM RFC 0037, and functions that apply them.

    RFC 0037        penstock
    CascaderGraph   Parts          a graph as parts: one node, its engine and its kernels each
    Part            Part           the schedulable unit
    Tensor          Value          a tensor of the graph
    Propagator      Affine         the input box that an output box reads
    StripeConfig    StripeConfig   stripes of one shape at constant distances
    TensorConfig    TensorConfig   the stripes of a tensor, its memory region and its buffer mode
    BufferMode      BufferMode     FULL, ROLLING, RECOMPUTE, DOUBLE
    Plan            Plan           how one cascade, a group of parts, runs
                    Candidate      a plan with its estimated memory and cycles
    Proposal        Proposal       plans that cover the graph
                    Frontier       the schedules worth placing
    Schedule        Schedule       the proposal that is placed and lowered
                    Cascade        a plan as a user states it, by names
    MemoryRegion    MemoryRegion   a memory of the target

Functions, in the order of the RFC's four steps:

    parts            the CascaderGraph of a graph
    needed_stripes   the stripes of every tensor that given stripes of the output need, by affine
                     transforms alone
    constants        how the constants of each part are stored: as they are, or compressed
    plans            the Pareto-optimal plans of each group of parts
    proposals        the Pareto-optimal proposals
    frontier         all schedules worth placing, those that recompute included; the search
    make_schedule    the schedule of a proposal, or of cascades that a user states
    cascades         the cascades of a schedule, to be changed
    single_cascade   the schedule that runs all parts as one plan, in stripes of a given size
    tensor_configs   the stripes of every tensor of a schedule
    program          the program of a schedule, which `penstock.simulators.machine` executes

A function that takes parts and a target uses the target of the parts unless another is given.

`penstock.compile(model, schedule=...)` compiles cascades or a schedule.

Source: TVM RFC 0037, "Arm Ethos-U Cascading Scheduler".  See docs/tutorials/cascader.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from penstock.backends.processor_parts import assign
from penstock.errors import UsageError
from penstock.frozen import frozen
from penstock.hardware.load import load_target
from penstock.hardware.target import MemoryRegion, Target
from penstock.ir.affine import Affine
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Region
from penstock.memory.place import place
from penstock.pipeline.search import cost_model_and_memories, schedule
from penstock.pipeline.stated_schedules import as_stated, costed_schedule, stated_schedule
from penstock.program.lower import lower
from penstock.program.program import Program
from penstock.program.writer import Addresses
from penstock.scheduling.bands import band_schedule as configs
from penstock.scheduling.cascades.proposals import Candidate, CascadeProblem, Proposal
from penstock.scheduling.cascades.search import every_proposal, plans_of_groups
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import BufferMode, Plan, TensorConfig
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.model.stated import Cascade, StatedChain, StatedPrefetch
from penstock.scheduling.model.stripe import StripeConfig
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, placement_problems

__all__ = [
    "Affine",
    "BufferMode",
    "Candidate",
    "Cascade",
    "Frontier",
    "MemoryRegion",
    "Part",
    "Parts",
    "Plan",
    "Proposal",
    "Region",
    "Schedule",
    "StatedChain",
    "StatedPrefetch",
    "StoredConstants",
    "StripeConfig",
    "TensorConfig",
    "Value",
    "cascades",
    "constants",
    "frontier",
    "make_schedule",
    "needed_stripes",
    "parts",
    "plans",
    "program",
    "proposals",
    "single_cascade",
    "tensor_configs",
]


def parts(graph: Graph, target: str = "host") -> Parts:
    """Return the parts of a graph on the processor of a target: the RFC's `CascaderGraph`.

    Raises UsageError if `graph` is another object, such as the path of a model.
    """
    _check_is(graph, Graph)
    return assign(graph, load_target(target))


def _check_is(given: object, kind: type[Graph] | type[Parts]) -> None:
    """Raises UsageError unless an argument is a graph, or parts."""
    if not isinstance(given, kind):
        is_graph = kind is Graph
        raise UsageError(
            "cascader-015",
            f"{given!r} is no {'graph' if is_graph else 'Parts'}",
            where="penstock.cascader",
            why="`parts` takes a graph; all other functions take parts, or a schedule made of them",
            help='read a file first: graph = penstock.read("model.tflite")'
            if is_graph
            else "parts = penstock.cascader.parts(graph, target)",
        )


def _target(parts: Parts, name: str | None) -> Target:
    """The target of that name; None: that of the parts."""
    _check_is(parts, Parts)
    if name is None and parts.target is not None:
        return parts.target
    return load_target(name or "host")


def needed_stripes(parts: Parts, output: StripeConfig) -> Mapping[str, StripeConfig]:
    """Return the stripes of each tensor that stripes of the last part's output need, by name.

    The affine transforms of the parts are chained from the output backwards, as in the RFC.  If
    several parts read a tensor, the result is what the first of them needs.  Stripes are not
    clipped, and their offsets are exact only as far as `StripeConfig.propagate` states.
    """
    _check_is(parts, Parts)
    found = {parts.parts[-1].name: output}
    for part in reversed(parts.parts):
        if part.name in found:
            stripes = part.input_stripes(found[part.name])
            needed = zip(part.inputs, stripes, strict=True)
            found |= {value.name: config for value, config in needed if value.data is None}
    return found


def single_cascade(
    parts: Parts, rows: int | None, columns: int | None = None, target: str | None = None
) -> Schedule:
    """Return the schedule that runs all parts as a single plan, in stripes of one size.

    rows: maximum number of rows per stripe; None: all rows.
    columns: number of columns per stripe; None: all columns.  Stripes of some columns are computed
        band by band; columns that two bands need are computed twice.

    The stripes of an output of several images are of one image each.

    Raises UnsupportedError if a part cannot run in bands of this width.
    """
    _check_is(parts, Parts)
    names = tuple(part.name for part in parts.parts)
    return make_schedule(parts, Cascade(names, rows=rows, columns=columns), target)


def make_schedule(
    parts: Parts,
    cascades: Cascade | Sequence[Cascade] | Proposal | Schedule,
    target: str | None = None,
) -> Schedule:
    """Return the schedule that runs cascades, in execution order, and all other parts whole.

    A proposal becomes its schedule (step 4 of the RFC).  A schedule, such as one of another target,
    becomes that of these parts, which must have the same names.

    Raises UsageError for parts, memories and stripes that do not exist, and UnsupportedError for
    stripes that the parts cannot compute.
    """
    chip = _target(parts, target)
    if isinstance(cascades, Proposal):
        return costed_schedule(parts, [(p, ()) for p in cascades.plans], cascades.memory, chip)
    return stated_schedule(parts, as_stated(cascades), chip, lambda graph: assign(graph, chip))


def cascades(schedule: Schedule) -> tuple[Cascade, ...]:
    """Return the cascades of a schedule, to be changed and compiled."""
    return as_stated(schedule).cascades


@frozen
class StoredConstants:
    """How the constants of a part are stored: as in the model, or as its kernel reads them.

    model_bytes: of the constants in the model.
    stored_bytes: of what is stored for the part, tables of its kernel included; less if an
        accelerator compresses weights.
    """

    part: str
    model_bytes: int
    stored_bytes: int

    @property
    def compression_ratio(self) -> float:
        """The bytes stored for each byte of the model: the RFC's ratio of a tensor."""
        return self.stored_bytes / self.model_bytes if self.model_bytes else 1.0


def constants(parts: Parts) -> tuple[StoredConstants, ...]:
    """Return how the constants of each part with constants are stored.

    parts: for those of accelerators, the parts of a compilation (`Compiled.compilation.parts`).
    """
    _check_is(parts, Parts)
    found: list[StoredConstants] = []
    for part in parts.parts:
        values = {v.name: v for node in part.nodes for v in node.inputs if v.data is not None}
        if values:
            model = sum(value.type.size_bytes for value in values.values())
            stored = {v.name: v.type.size_bytes for k, v in enumerate(part.inputs)
                      if v.data is not None and k not in part.kernel.folded}  # fmt: skip
            tables = sum(table.type.size_bytes for _, table in part.kernel.every_table)
            found.append(StoredConstants(part.name, model, sum(stored.values()) + tables))
    return tuple(found)


def plans(
    parts: Parts, target: str | None = None, options: Options | None = None
) -> Mapping[tuple[str, ...], tuple[Candidate, ...]]:
    """Return the Pareto-optimal plans of each part group: step 2 of the RFC.

    Keys: names of the parts of a group, which are consecutive in the graph's order.  Each plan has
    its live bytes (`peak_bytes`) and its cycles beyond the computing time of the parts (`time`), in
    1/1024 cycle if the target has slow or several memories.

    options: defaults to `Options()`; `max_parts` limits the size of groups.
    """
    found = plans_of_groups(_problem(parts, target, options))
    return {tuple(parts.parts[k].name for k in group): every for group, every in found.items()}


def proposals(
    parts: Parts, target: str | None = None, options: Options | None = None
) -> tuple[Proposal, ...]:
    """Return the Pareto-optimal proposals, whose plans cover the graph: step 3 of the RFC.

    `make_schedule` takes a proposal.  `frontier` also returns schedules that recompute.
    options: defaults to `Options()`.
    """
    return every_proposal(_problem(parts, target, options))


def _problem(parts: Parts, target: str | None, options: Options | None) -> CascadeProblem:
    model, memories = cost_model_and_memories(_target(parts, target))
    return CascadeProblem(parts, model, memories, options or Options())


def frontier(parts: Parts, target: str | None = None, options: Options | None = None) -> Frontier:
    """Return the schedules that may be Pareto-optimal in (memory, cycles): the search.

    options: defaults to `Options()`.
    """
    return schedule(parts, _target(parts, target), options or Options())


def tensor_configs(schedule: Schedule) -> tuple[TensorConfig, ...]:
    """Return the stripes of each tensor that a schedule computes, in execution order.

    If stripes are nodes of their own, those of a tensor are listed together, in the place of the
    first one.  Copies, by which such nodes read and join boxes, are left out.
    """
    boxes, expanded = {box.node: box for box in schedule.boxes}, ExpandedSchedule(schedule)
    ticks = _ticks(expanded)
    made: dict[str, TensorConfig] = {}
    stripes: dict[str, list[tuple[int, Region]]] = {}
    for config in configs.tensor_configs(expanded):
        box = boxes.get(config.tensor)
        if box is None:
            made[config.tensor] = config
        elif not box.is_copy:
            made.setdefault(box.tensor, config)
            regions = (region.shift(box.region.lower) for region in config.regions())
            known = ticks.get(config.tensor, [0])
            if len(known) != config.count:  # in bands, whose calls are listed band by band
                known = known[:1] * config.count
            stripes.setdefault(box.tensor, []).extend(zip(known, regions, strict=True))
    for tensor, every in stripes.items():
        in_order = [region for _, region in sorted(every, key=lambda one: one[0])]
        made[tensor] = _config_of_boxes(tensor, in_order, made[tensor].memory, schedule)
    return tuple(made.values())


def _ticks(expanded: ExpandedSchedule) -> Mapping[str, list[int]]:
    """Return the ticks of the calls of each part, by name."""
    found: dict[str, list[int]] = {}
    for cascade in expanded.cascades:
        for call, position in enumerate(cascade.calls[:, 0].tolist(), cascade.tick):
            name = cascade.parts.parts[cascade.plan.parts[position - cascade.lower]].name
            found.setdefault(name, []).append(call)
    return found


def _config_of_boxes(
    tensor: str, boxes: Sequence[Region], memory: str, schedule: Schedule
) -> TensorConfig:
    rank = len(boxes[0].upper)
    extent = tuple(max(box.upper[axis] for box in boxes) for axis in range(rank))
    none, one = (0,) * rank, (1,) * rank
    stripes = tuple(
        StripeConfig(box.shape, extent, box.shape, none, one, box.lower) for box in boxes
    )
    several = sum(box.elements for box in boxes) > math.prod(extent)
    is_whole = len(boxes) == 1 or tensor in schedule.parts.names
    mode = BufferMode.RECOMPUTE if several else BufferMode.ROLLING
    return TensorConfig(tensor, memory, BufferMode.FULL if is_whole else mode, stripes)


def program(schedule: Schedule) -> Program:
    """Place the buffers of a schedule, and return its program."""
    expanded = ExpandedSchedule(schedule)
    placed = [(memory, place(problem)) for memory, problem in placement_problems(expanded)]
    offsets = {name: at for _, placement in placed for name, at in placement.offsets}
    heights = tuple((memory, placement.height_bytes) for memory, placement in placed)
    return lower(expanded, Addresses(offsets, heights))
