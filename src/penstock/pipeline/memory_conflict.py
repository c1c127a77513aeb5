"""MemoryConflict: the tensors that cannot fit together into the memory available to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.memory.conflict import conflict
from penstock.memory.problem import LiveBuffer, PlacementProblem, live_peak
from penstock.pipeline.placed_point import PlacedPoint
from penstock.pipeline.request import Request
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import (
    block_name,
    placement_problems,
    scratch_name,
)

MAX_BLOCKS = 200
"""Maximum number of blocks for the search for fragmentation conflicts.

The search tries up to `ConflictOptions.max_asks` subsets; with more blocks, it would take longer
than the compilation.
"""


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A tensor or another buffer that is live at the peak.

    live_bytes, whole_bytes: bytes of its live rows, and of all its rows.
    """

    name: str
    live_bytes: int
    whole_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryConflict:
    """Why a point does not fit.

    memory: name of the memory region that is too small.
    moment: what runs at the peak of live bytes, as a clause for messages.
    held: the tensors that are live at the peak, the largest first.
    available_bytes: bytes of `memory` that are available to tensors.
    irreducible: names of tensors that do not fit together, but would without any one of them, the
        largest first; empty if no such set was found.  All of them are live at the peak, unless the
        live bytes fit and only fragmentation prevents a placement.
    """

    memory: str
    moment: str
    held: tuple[HeldTensor, ...]
    available_bytes: int
    irreducible: tuple[str, ...]


def memory_conflict(point: PlacedPoint, request: Request) -> MemoryConflict:
    """Return the conflict in the first memory whose blocks do not fit.

    point: a point that is not feasible for the request.
    """
    expanded = ExpandedSchedule(point.schedule)
    memory, available = _exceeded(point, request)
    problem = dict(placement_problems(expanded))[memory]
    names = _shown_names(point.schedule)
    labels = _labels(expanded, problem, names)
    peak = live_peak(problem)
    live = frozenset(peak.names)
    held = _by_label([b for b in problem.buffers if b.name in live], labels)
    whole = {names[s.name]: s.size_bytes for s in point.schedule.parts.rows.storages}
    tensors = (HeldTensor(name, size, whole.get(name, size)) for name, size in held.items())
    return MemoryConflict(
        memory,
        _moment(expanded, peak.tick, names),
        tuple(sorted(tensors, key=lambda tensor: -tensor.live_bytes)),
        available,
        _irreducible(problem, held, labels, available),
    )


def _exceeded(point: PlacedPoint, request: Request) -> tuple[str, int]:
    """Return the name of the first memory that is too small, and the bytes available in it."""
    sizes = {memory.name: memory.size_bytes for memory in request.target.memories}
    for memory, placement in point.others:
        if placement.height_bytes > sizes[memory]:
            return memory, sizes[memory]
    others = point.height_bytes - point.placement.height_bytes
    tensors = point.schedule.memory.default
    left = request.ram_limit_bytes - request.stack_bytes - others
    return tensors, max(0, min(sizes[tensors], left))


def _labels(
    expanded: ExpandedSchedule, problem: PlacementProblem, names: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the names for messages, by buffer name: those of tensors, or "NAME (scratch)"."""
    schedule = expanded.schedule
    labels = {buffer.name: _first_name(buffer.name) for buffer in problem.buffers}
    labels |= {block_name(schedule, block): names[block.storage] for block in expanded.blocks()}
    for plan in schedule.plans:
        last = schedule.parts.parts[plan.parts[-1]]
        labels[scratch_name(schedule, plan)] = f"{names[last.name]} (scratch)"
    return labels


def _shown_names(schedule: Schedule) -> Mapping[str, str]:
    """Return the names for messages, by name of a tensor or part.

    Of names that a model file has joined with semicolons, this is the first one if it is unique.  A
    tensor that only an alternative graph contains has the name of the tensor of the network from
    which it derives, with a remark if both are named."""
    parts = schedule.parts
    every = sorted({s.name for s in parts.rows.storages} | {part.name for part in parts.parts})
    sources = _network_names(every, schedule.assigned_parts)
    firsts = {source: _first_name(source) for source in sources.values()}
    sharing_first, sharing = Counter(firsts.values()), Counter(sources.values())
    shown: dict[str, str] = {}
    for name, source in sources.items():
        short = firsts[source] if sharing_first[firsts[source]] == 1 else source
        is_other = sharing[source] > 1 and source != name
        shown[name] = f"{short} (in another form)" if is_other else short
    return shown


def _network_names(names: Iterable[str], assigned: Parts) -> Mapping[str, str]:
    """Return the names of the network's tensors from which those of an alternative derive, which
    are their own for tensors of the network."""
    if assigned.similar is None:
        return {name: name for name in names}
    network = assigned.similar.graph
    known = network.names()
    by_origin = {node.origin: node.name for node in network.nodes}
    nodes = {node.name: node for node in assigned.graph.nodes}

    def source(name: str) -> str:
        node = nodes.get(name)
        if name in known or node is None:
            return name
        return source(by_origin.get(node.origin, node.variable_inputs[0].name))

    return {name: source(name) for name in names}


def _first_name(name: str) -> str:
    """Return the first of several names that a model file has joined with semicolons."""
    return name.split(";")[0]


def _by_label(buffers: list[LiveBuffer], labels: Mapping[str, str]) -> dict[str, int]:
    """Return the total size of the buffers that have the same label, by label."""
    found: dict[str, int] = {}
    for buffer in buffers:
        label = labels[buffer.name]
        found[label] = found.get(label, 0) + buffer.size_bytes
    return found


def _irreducible(
    problem: PlacementProblem,
    held: Mapping[str, int],
    labels: Mapping[str, str],
    available_bytes: int,
) -> tuple[str, ...]:
    """Return an irreducible set of labels that do not fit together; empty if none was found.

    If the live bytes at the peak (`held`) exceed the available bytes, the set is chosen from the
    tensors live there, else from all buffers.
    """
    if sum(held.values()) > available_bytes:
        tensors = tuple(LiveBuffer(name, 0, 1, size) for name, size in held.items())
        found = conflict(PlacementProblem(tensors, available_bytes))
    elif len(problem.buffers) <= MAX_BLOCKS:
        # Without the ties the problem is a relaxation: its conflicts are conflicts with ties, too.
        untied = (replace(b, anchor=None, distance_bytes=0) for b in problem.buffers)
        found = conflict(PlacementProblem(tuple(untied), available_bytes))
    else:
        found = None
    if found is None or not (found.proven and found.irreducible):
        return ()
    names = dict.fromkeys(labels.get(name, name) for name in found.names)
    return tuple(sorted(names, key=lambda name: -held.get(name, 0)))


def _moment(expanded: ExpandedSchedule, tick: int, names: Mapping[str, str]) -> str:
    """Return what happens at a tick, as a clause for messages."""
    schedule = expanded.schedule
    for cascade in expanded.cascades:
        if cascade.tick <= tick < cascade.tick + len(cascade.calls):
            position = int(cascade.calls[tick - cascade.tick, 0])
            part = schedule.parts.parts[schedule.order[position]]
            return f'while "{names[part.name]}" runs'
    return "when the caller writes the inputs" if tick == 0 else "when the caller reads the outputs"
