"""The four points at which program passes run: before and after stripes, after placement, before
emission (`PassPhase`).

All accelerators complete a phase before the next phase begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from penstock.backends.accelerator import Accelerator, PassPhase
from penstock.backends.instances import with_instances
from penstock.backends.layer_program import all_kernels, layer_program, with_replaced_kernels
from penstock.backends.passes import after_passes
from penstock.backends.program_changes import change_check
from penstock.backends.region_calls import with_region_calls
from penstock.backends.stream import with_streams
from penstock.backends.waits import with_waits
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.ir.op import Kernel
from penstock.program.laid import Addresses
from penstock.program.lower import lower
from penstock.program.program import Program
from penstock.program.steps import calls
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import placement_problems

_LAYERS, _STRIPES, _PLACED, _EMITTED = (
    PassPhase.PROGRAM_PHASE_0,
    PassPhase.PROGRAM_PHASE_1,
    PassPhase.PROGRAM_PHASE_2,
    PassPhase.PROGRAM_PHASE_3,
)


def before_stripes(graph: Graph, accelerators: Sequence[Accelerator]) -> Graph:
    """Return the graph after the accelerators' passes of PROGRAM_PHASE_0.

    The passes may replace the kernels of composites.  If a composite has several kernels, the
    passes run once for each of them."""
    for accelerator in accelerators:
        if accelerator.passes(_LAYERS):
            most = max((len(all_kernels(op)) for op in _composites(graph, accelerator)), default=0)
            for k in range(most):
                graph = _with_kernel(graph, accelerator, k)
    return graph


def _composites(graph: Graph, accelerator: Accelerator) -> list[Composite]:
    ops = (node.op for node in graph.nodes)
    return [op for op in ops if isinstance(op, Composite) and op.engine == accelerator.name]


def _with_kernel(graph: Graph, accelerator: Accelerator, k: int) -> Graph:
    """Run the accelerator's passes of PROGRAM_PHASE_0 once, for kernel `k` of each composite.

    The passes receive a program that calls kernel `k` of each composite of the accelerator.  The
    program that they return may call other kernels; in the returned graph, these replace the
    kernels `k`.  A composite with at most `k` kernels is unchanged.

    k: the index of a kernel in the result of `all_kernels`.
    """

    def selected(composite: Composite) -> Kernel:
        every = all_kernels(composite)
        return every[k] if k < len(every) else every[0]

    processor = accelerator.target.chip.engines[0].name
    before = layer_program(graph, processor, selected)
    check = change_check(accelerator.name, _LAYERS)
    after = after_passes(before, accelerator, _LAYERS, check)
    found = {call.output.tensor: call.kernel for call in calls(after)}

    def changed(node: Node) -> Node:
        op = node.op
        if not isinstance(op, Composite) or op.engine != accelerator.name:
            return node
        old = all_kernels(op)
        if k >= len(old):
            return node
        every = (*old[:k], found[node.name], *old[k + 1 :])
        return replace(node, op=with_replaced_kernels(op, every))

    return graph.with_nodes(tuple(map(changed, graph.nodes)))


def after_stripes(schedule: Schedule, accelerators: Sequence[Accelerator]) -> Schedule:
    """Run the accelerators' passes of PROGRAM_PHASE_1 on a schedule without addresses.

    The passes receive a program with provisional addresses, made from the schedule, and return a
    program.  The result is the schedule with the kernels of the returned program."""
    for accelerator in accelerators:
        if accelerator.passes(_STRIPES):
            expanded = ExpandedSchedule(schedule)
            before = lower(expanded, _provisional_addresses(expanded))
            check = change_check(accelerator.name, _STRIPES)
            after = after_passes(before, accelerator, _STRIPES, check)
            found = {call.output.tensor: call.kernel for call in calls(after)}
            swap = partial(_with_new_kernel, schedule.steps, found)
            parts = tuple(map(swap, schedule.parts.parts))
            schedule = replace(schedule, parts=replace(schedule.parts, parts=parts))
    return schedule


def _with_new_kernel(scheduled: Sequence[Part], found: dict[str, Kernel], part: Part) -> Part:
    """Return `part` with the kernel that the schedule uses for it replaced by a new one.

    A part that the schedule does not run, or that has no new kernel, is returned unchanged.

    scheduled: the parts that the schedule runs.  The field `kernel` of each is the one that the
        schedule uses; in `part`, this may be the preferred kernel, the fallback kernel or one that
        prefetches.
    found: the new kernels, by the name of the part."""
    own = next((one for one in scheduled if one.name == part.name), None)
    if own is None or part.name not in found or found[part.name] is own.kernel:
        return part
    old, new = own.kernel, found[part.name]
    prefetching = tuple(new if kernel is old else kernel for kernel in part.prefetching)
    return replace(
        part,
        kernel=new if part.kernel is old else part.kernel,
        fallback=new if part.fallback is old else part.fallback,
        prefetching=prefetching,
    )


def _provisional_addresses(expanded: ExpandedSchedule) -> Addresses:
    """Return an address for each block, without regard to the sizes of the memories.

    In each memory, the blocks follow one another, so no two overlap.  Blocks that must have a fixed
    distance from each other, such as the rows of one tensor, have this distance."""
    offsets: dict[str, int] = {}
    heights: list[tuple[str, int]] = []
    for memory, problem in placement_problems(expanded):
        height = 0
        for root in (buffer for buffer in problem.buffers if buffer.anchor is None):
            tied = [b for b in problem.buffers if b is root or b.anchor == root.name]
            lowest = min(b.distance_bytes for b in tied)
            start = -(-height // root.alignment) * root.alignment - lowest
            start = -(-start // root.alignment) * root.alignment
            offsets |= {b.name: start + b.distance_bytes for b in tied}
            height = max(start + b.distance_bytes + b.size_bytes for b in tied)
        heights.append((memory, height))
    return Addresses(offsets, tuple(heights))


def after_placement(program: Program, accelerators: Sequence[Accelerator]) -> Program:
    """Return the program after the passes of PROGRAM_PHASE_2 and 3, with encoded streams.

    The passes of PROGRAM_PHASE_2 receive the program before its commands are encoded as streams,
    and the passes of PROGRAM_PHASE_3 receive the program with the streams."""
    for accelerator in accelerators:
        check = change_check(accelerator.name, _PLACED)
        program = after_passes(program, accelerator, _PLACED, check)
    for accelerator in accelerators:
        program = with_streams(with_region_calls(program, accelerator), accelerator)
        program = with_waits(with_instances(program, accelerator), accelerator)
    for accelerator in accelerators:
        check = change_check(accelerator.name, _EMITTED)
        program = after_passes(program, accelerator, _EMITTED, check)
    return program
