"""Parts: a graph split into parts (nodes with engine and kernels), in the graph's order.

A tensor's *storage* is the memory block that holds it.  An alias (the same bytes under another
shape) shares the storage of the other tensor, so nodes that only create aliases are not parts.

An accelerator may run a group of parts as a single part, tile by tile (`FusedPart`).  A tile is a
rectangle of rows and columns of the output of the last part.  Of the tensors between the parts, the
on-chip memory holds only what one tile needs.  If the group has several outputs, the single part
writes a tensor that contains all of them side by side; each output is stored as some columns of
this tensor (`ColumnSection`).  Cascades and chains in bands of columns are replaced in the same way
(`bands/band_schedule.py`).  The *original* parts are those from the stage `assign`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.hardware.target import Target
from penstock.ir.composite import FUSED, Composite
from penstock.ir.graph import Graph, Node, Value, Values, free_name
from penstock.scheduling.model.access import RowParts, row_parts
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.queues import QueueMemory, queue_guests, queue_memories


@frozen(repr=False)
class CpuFallback(Brief):
    """A node that runs on the processor, because no accelerator claims it.

    reason: why no accelerator claims the node.
    cycles: estimated cycles of the node on the processor.
    """

    node: Node
    reason: str
    cycles: int


@frozen(repr=False)
class ColumnSection(Brief):
    """A tensor that consists of some columns of a larger tensor and is stored there.

    value: name of the smaller tensor.
    tensor: name of the larger tensor.
    first_byte: offset, in bytes, at which a row of the smaller tensor begins in the row of the
        larger one.
    """

    value: str
    tensor: str
    first_byte: int


@dataclass(frozen=True, repr=False)
class Parts(Brief):
    """A graph split into parts (nodes with engine and kernels), in the graph's order.

    The `CascaderGraph` of TVM RFC 0037.

    parts: one per node that computes something, and one per streamed input (a network input whose
        rows the application supplies during the run).
    accelerators: names of the accelerators.
    cpu_fallbacks: the nodes that no accelerator claims; empty without accelerators.
    updates: the parts that copy new elements to states (tensors that persist from run to run), in
        execution order.  They run after all other parts.
    sections: tensors that consist of some columns of larger tensors and are stored in them.
    outside: names of the storages whose memory a surrounding program provides.  For example, the
        memory of a band's inputs and output belongs to the network.
    alternatives: parts of other graphs that compute the same results; the search considers their
        schedules, too.  The text form of parts does not contain them.
    alternative: 0 for the network's own graph; k for entry k - 1 of the list `alternatives`.
    least_row_bytes: the row bound of an alternative that saves memory but takes more cycles: the
        least peak of its live bytes if each row is computed once.  The search skips the alternative
        if another schedule needs at most this memory, and takes hardly more cycles than the
        alternative would (at most 1 %, `KNEE`).  None for all other parts.
    floor_bytes: for an alternative that saves memory only by recomputation, the least bytes with
        which any schedule can run the layers that it changes.  The search skips the alternative if
        the least memory found so far exceeds 5/4 (`NEAR_FLOOR`) of this number: other layers then
        limit the memory.  None for all other parts.
    is_for_speed: whether an alternative takes more memory for fewer cycles.  The search skips it if
        its kernels are hardly faster, and its schedules do not set the pace (`Schedule.pace`).
    network: for an alternative, the parts of the network's own graph; else None.
    offloaded: the graph with the composites of the accelerators, from which `graph` was made; None
        for an alternative.
    target: the chip that the parts were assigned to; None for parts inside a group or a band.
    """

    graph: Graph
    parts: tuple[Part, ...]
    accelerators: tuple[str, ...] = ()
    cpu_fallbacks: tuple[CpuFallback, ...] = ()
    updates: tuple[Part, ...] = ()
    sections: tuple[ColumnSection, ...] = ()
    outside: frozenset[str] = frozenset()
    alternatives: tuple[Parts, ...] = field(default=(), compare=False)
    alternative: int = 0
    least_row_bytes: int | None = None
    floor_bytes: int | None = None
    is_for_speed: bool = False
    network: Parts | None = field(default=None, compare=False)
    offloaded: Graph | None = field(default=None, compare=False)
    target: Target | None = field(default=None, compare=False)

    @property
    def inputs(self) -> Values:
        """Graph inputs that are in memory before the first part runs.

        Streamed inputs, whose rows the application supplies during the run, are left out.
        """
        streamed = {part.name for part in self.parts if part.streamed_input is not None}
        return tuple(v for v in self.graph.inputs if v.name not in streamed)

    @property
    def sources(self) -> Values:
        """The values that are in memory before the first part runs.

        These are the inputs, and the states and queues, which keep data from the previous run.
        """
        return (*self.inputs, *self.graph.kept)

    @cached_property
    def can_prefetch(self) -> bool:
        """Whether any part has a kernel that reads prefetched constants."""
        return any(part.prefetching for part in self.parts)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of all values of the graph.  Other buffers must have different names."""
        return self.graph.names()

    @cached_property
    def rows(self) -> RowParts:
        """Which rows of its inputs every part reads to compute the rows of its output."""
        return row_parts(
            self.graph,
            self.parts,
            self.sources,
            self.owners,
            self.queues,
            self.outside,
        )

    @cached_property
    def queues(self) -> tuple[QueueMemory, ...]:
        """How each queue of the graph is stored.

        A queue keeps the last rows of a sequence from one run to the next.
        """
        return queue_memories(self.graph, self.owners, queue_guests(self.graph, self.parts))

    def first_byte(self, value: Value) -> int:
        """Return the offset, in bytes, at which a row of a value begins in the row of its storage.

        It is 0 unless the value consists of some columns of a larger tensor and is stored in it.
        """
        return self._first_bytes.get(value.name, 0)

    @cached_property
    def _first_bytes(self) -> Mapping[str, int]:
        return {section.value: section.first_byte for section in self.sections}

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """Name of the storage (memory block) of each value that is not a constant, by value name.

        A storage has the name of the tensor that owns it.  Aliases share the storage: if `y` is an
        alias of `x`, both have the entry "x".
        """
        sections = {section.value: section.tensor for section in self.sections}
        return storage_owners(self.graph, sections)


def update_name(parts: Parts, state: Value) -> str:
    """Return the name that programs use for the memory of a state after its update.

    A state is a tensor that persists from run to run.  Its update, at the end of a run, copies new
    elements to its memory.  For a state `x`, the name is "x/updated", with a number appended if a
    value of the graph has this name.
    """
    return free_name(f"{state.name}/updated", parts.names)


def storage_owners(
    graph: Graph, columns: Mapping[str, str] = MappingProxyType({})
) -> Mapping[str, str]:
    """Return the name of the storage (memory block) of each value of a graph, by value name.

    An alias has the storage of the tensor whose bytes it shares (`Parts.owners`).
    columns: the values that consist of some columns of a larger value and are stored in it.  Keys:
        names of these values.  Entries: names of the larger values.

    A queue keeps the last rows of a sequence from run to run.  Its window (kept rows and new rows)
    and the slices of the window that are read in place have the storage of the new rows
    (`QueueMemory.new`).
    """
    found = {value.name: columns.get(value.name, value.name) for value in graph.variables()}
    windows = {queue.window.name for queue in graph.queues}
    sections = {value.name for queue in graph.queues for value in queue.views} - windows
    for node in graph.nodes:
        if node.output.name in columns:
            continue
        if node.output.name in windows:
            found[node.output.name] = found[node.inputs[1].name]
        elif node.output.name in sections or (node.op.ALIAS and node.inputs[0].data is None):
            found[node.output.name] = found[node.inputs[0].name]
    return found


@frozen
class SectionNode:
    """A node that takes one of several outputs of a group from the tensor that the group writes.

    first_byte: offset, in bytes, at which a row of the output begins in a row of this tensor.
    """

    node: Node
    first_byte: int


@frozen
class FusedPart:
    """A part that runs a group of other parts tile by tile, or in bands of columns.

    outputs: if the group has several outputs, the nodes that take each of them from the tensor that
        the part writes; empty if this tensor is the only output.
    """

    part: Part
    outputs: tuple[SectionNode, ...] = ()


class FusionSource(Protocol):
    """Creates parts that run other parts tile by tile, for the accelerators of a target."""

    def fused(self, parts: Parts, members: Sequence[int]) -> FusedPart | None:
        """Return the part that runs some parts tile by tile; None if no accelerator can.

        members: indices of the parts, in execution order.
        """
        ...


def joined_nodes(parts: Iterable[Part]) -> tuple[tuple[Node, ...], Values]:
    """Return the nodes of parts, and the values that they read but do not compute, each once."""
    nodes = tuple(node for part in parts for node in part.nodes)
    made = {node.name for node in nodes}
    read = (v for node in nodes for v in node.inputs if v.name not in made)
    return nodes, tuple({v.name: v for v in read}.values())


def fused_members(part: Part) -> tuple[str, ...]:
    """Return the names of the original parts that `part` runs tile by tile.

    The result is empty if `part` runs no other parts tile by tile.
    """
    op = part.nodes[-1].op if part.nodes else None
    if not isinstance(op, Composite) or op.name != FUSED:
        return ()
    # A node that is no composite places several outputs side by side; it is no original part.
    return tuple(node.name for node in op.nodes if isinstance(node.op, Composite))


@frozen
class Replacement:
    """Parts in which single parts stand for groups of the original parts.

    index: for each original part, the index of the part that runs it.
    """

    parts: Parts
    index: Sequence[int]


def with_fused(parts: Parts, groups: Sequence[tuple[Sequence[int], FusedPart]]) -> Replacement:
    """Replace each group of parts by a single part.

    groups: for each group, the indices of its parts in execution order, and the part that replaces
        them.

    Returns the parts after the replacement, and the index in them of each original part.
    """
    if not groups:
        return Replacement(parts, range(len(parts.parts)))
    single = {members[-1]: fused for members, fused in groups}
    last = {k: members[-1] for members, _ in groups for k in members}
    nodes: dict[str, tuple[Node, ...]] = {parts.parts[k].name: () for k in last}
    for k, fused in single.items():
        nodes[parts.parts[k].name] = (fused.part.nodes[-1], *(one.node for one in fused.outputs))
    graph = parts.graph
    every = [new for node in graph.nodes for new in nodes.get(node.name, (node,))]
    graph = graph.with_nodes(tuple(_in_order(graph, every)))
    remaining = {k: part for k, part in enumerate(parts.parts) if k not in last}
    remaining |= {k: fused.part for k, fused in single.items()}
    position = {node.name: p for p, node in enumerate(graph.nodes)}
    order = sorted(remaining, key=lambda k: (position.get(remaining[k].name, -1), k))
    number = {k: p for p, k in enumerate(order)}
    sections = (
        ColumnSection(one.node.name, fused.part.name, one.first_byte)
        for fused in single.values()
        for one in fused.outputs
    )
    changed = replace(
        parts,
        graph=graph,
        parts=tuple(remaining[k] for k in order),
        sections=(*parts.sections, *sections),
        alternatives=(),
    )
    return Replacement(changed, tuple(number[last.get(k, k)] for k in range(len(parts.parts))))


def _in_order(graph: Graph, nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes in a topological order: always the first one whose inputs are available."""
    known = {value.name for value in graph.sources}
    waiting = list(nodes)
    while waiting:
        ready = next(n for n in waiting if all(v.name in known for v in n.variable_inputs))
        waiting.remove(ready)
        known.add(ready.name)
        yield ready
