"""The cascading scheduler: the concepts of TVM RFC 0037, and functions that apply them.

    RFC 0037        penstock
    CascaderGraph   Parts          a graph as parts: one node, its engine and its kernels each
    Part            Part           the schedulable unit
    Tensor          Value          a tensor of the graph
    Propagator      Affine         the input box that an output box reads
    StripeConfig    StripeConfig   stripes of one shape at constant distances
    TensorConfig    TensorConfig   the stripes of a tensor, its memory region and its buffer mode
    BufferMode      BufferMode     FULL, ROLLING, RECOMPUTE
    Plan            Plan           how one cascade, a group of parts, runs
    Proposal        Proposal       plans that cover the graph
                    Frontier       the schedules worth placing
    Schedule        Schedule       the proposal that is placed and lowered
    MemoryRegion    MemoryRegion   a memory of the target

Functions, in the order of the RFC's four steps:

    parts            the CascaderGraph of a graph
    needed_stripes   the stripes of every tensor that given stripes of the output need, by affine
                     transforms alone
    single_cascade   the schedule that runs all parts as one plan, in stripes of a given size
    frontier         all schedules worth placing; the search
    tensor_configs   the stripes of every tensor of a schedule
    program          the program of a schedule, which `penstock.simulators.machine` executes

Source: TVM RFC 0037, "Arm Ethos-U Cascading Scheduler".  See docs/tutorials/cascader.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.backends.processor_parts import assign
from penstock.errors import UnsupportedError
from penstock.hardware.load import load_target
from penstock.hardware.target import MemoryRegion
from penstock.ir.affine import Affine
from penstock.ir.graph import Graph, Value
from penstock.ir.region import Region
from penstock.memory.place import place
from penstock.pipeline.search import band_source, cost_model_and_memories, schedule
from penstock.program.lower import lower
from penstock.program.program import Program
from penstock.program.writer import Addresses
from penstock.scheduling.bands import band_schedule as configs
from penstock.scheduling.bands.band_schedule import can_run_in_bands, with_bands
from penstock.scheduling.cascades.proposals import Proposal
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import BufferMode, Plan, TensorConfig
from penstock.scheduling.model.schedule import Frontier, Gaps, Schedule
from penstock.scheduling.model.stripe import StripeConfig
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedSchedule,
    live_bytes,
    placement_problems,
)

__all__ = [
    "Affine",
    "BufferMode",
    "Frontier",
    "MemoryRegion",
    "Part",
    "Parts",
    "Plan",
    "Proposal",
    "Region",
    "Schedule",
    "StripeConfig",
    "TensorConfig",
    "Value",
    "frontier",
    "needed_stripes",
    "parts",
    "program",
    "single_cascade",
    "tensor_configs",
]


def parts(graph: Graph, target: str = "host") -> Parts:
    """Return the parts of a graph on the processor of a target: the RFC's `CascaderGraph`."""
    return assign(graph, load_target(target))


def needed_stripes(parts: Parts, output: StripeConfig) -> Mapping[str, StripeConfig]:
    """Return the stripes of each tensor that stripes of the last part's output need, by name.

    The affine transforms of the parts are chained from the output backwards, as in the RFC.  If
    several parts read a tensor, the result is what the first of them needs.  Stripes are not
    clipped, and their offsets are exact only as far as `StripeConfig.propagate` states.
    """
    found = {parts.parts[-1].name: output}
    for part in reversed(parts.parts):
        if part.name in found:
            stripes = part.input_stripes(found[part.name])
            needed = zip(part.inputs, stripes, strict=True)
            found |= {value.name: config for value, config in needed if value.data is None}
    return found


def single_cascade(
    parts: Parts, rows: int | None, columns: int | None = None, target: str = "host"
) -> Schedule:
    """Return the schedule that runs all parts as a single plan, in stripes of one size.

    rows: maximum number of rows per stripe; None: all rows.
    columns: number of columns per stripe; None: all columns.  Stripes of some columns are computed
        band by band; columns that two bands need are computed twice.

    Raises UnsupportedError if a part cannot run in bands of this width.
    """
    chip = load_target(target)
    model, memories = cost_model_and_memories(chip)
    memory = memories.default_assignment
    order = tuple(range(len(parts.parts)))
    scratch = max(part.kernel.scratch_bytes for part in parts.parts)
    plan = Plan(order, rows, scratch_bytes=scratch, columns=columns)
    banded: tuple[Bands, ...] | None = ()
    if columns is not None:
        possible = can_run_in_bands(parts, order, columns, rows)
        banded = band_source(chip).bands(parts, plan) if possible else None
        if banded is None:
            raise UnsupportedError(
                "cascader-001",
                f'"{parts.graph.name}" cannot run in bands of {columns} columns',
                where="single_cascade",
                why="each part must compute some columns of an (N, H, W, C) tensor by itself, only "
                "later parts may read them, and a band has at most the columns of the output",
                help="cascade fewer parts, use fewer columns, or leave out `columns`",
            )
    composed, plans, bands = with_bands(parts, ((plan, banded),))
    bare = Schedule(
        composed,
        plans,
        memory,
        keep_inputs=False,
        peak_bytes=0,
        gaps=Gaps(0.0, 0.0),
        bands=bands,
        assigned=parts if bands else None,
    )
    bare = band_source(chip).costed(bare)
    accounting = CostAccounting(composed, model, memories)
    expanded = ExpandedSchedule(bare)
    costed = tuple(accounting.costed(bare, cascade) for cascade in expanded.cascades)
    peak = int(live_bytes(expanded).max())
    bound = sum(composed.rows.storages[k].size_bytes for k in composed.rows.outputs)
    gap = peak / max(1, bound) - 1.0
    updating = accounting.update_costs(memory)
    return replace(bare, plans=costed, peak_bytes=peak, gaps=Gaps(gap, gap), updating=updating)


def frontier(parts: Parts, target: str = "host", options: Options | None = None) -> Frontier:
    """Return the schedules that may be Pareto-optimal in (memory, cycles): the search.

    options: defaults to `Options()`.
    """
    return schedule(parts, load_target(target), options or Options())


def tensor_configs(schedule: Schedule) -> tuple[TensorConfig, ...]:
    """Return the stripes of each tensor that a schedule computes, in execution order."""
    return tuple(configs.tensor_configs(ExpandedSchedule(schedule)))


def program(schedule: Schedule) -> Program:
    """Place the buffers of a schedule, and return its program."""
    expanded = ExpandedSchedule(schedule)
    placed = [(memory, place(problem)) for memory, problem in placement_problems(expanded)]
    offsets = {name: at for _, placement in placed for name, at in placement.offsets}
    heights = tuple((memory, placement.height_bytes) for memory, placement in placed)
    return lower(expanded, Addresses(offsets, heights))
