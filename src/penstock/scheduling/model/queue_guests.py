"""Queue guests: tensors that are stored in an unused slot of a queue's ring buffer.

A queue keeps the last rows of a sequence from one run to the next.  Its window, the kept rows
followed by the new rows of a run, is stored in a ring buffer with one slot per row.  In each run,
two slots are unused for some time:

1. The slot of the first new row, until that row is computed.  A tensor may be stored there if the
   part that computes the new row depends on all parts that read the tensor.
2. The slot of the oldest row, after the last read of the window.  A tensor may be stored there if
   the part that computes the tensor depends on all parts that read the window.  If a run fails, the
   oldest row must be unchanged.  This slot is therefore used only in networks whose runs cannot
   fail: those without streamed inputs and without calls of accelerators.

A guest is a tensor of one row.  A slot has at most one guest.  Only dependences between parts with
a single output row are considered.  Such a part always runs after the parts on which it depends,
even within a cascade.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.ir.graph import Graph, Queue, Value
from penstock.ir.op import Kernel, row_count
from penstock.scheduling.model.part import Part


@dataclass(frozen=True, slots=True)
class QueueGuest:
    """A tensor of one row that is stored, for some time in each run, in the ring buffer of a queue.

    row: index of a row in the window of the queue (the kept rows, followed by the new rows).  The
        tensor is stored in the slot of this row.
    """

    value: Value
    row: int


Guests = Mapping[str, tuple[QueueGuest, ...]]
"""The guests of each queue, by the name of `queue.before`."""


def queue_guests(graph: Graph, parts: Sequence[Part]) -> Guests:
    """Return the guests of each queue, by the name of the queue's kept rows (`Queue.before`).

    Tensors are assigned in descending order of size, each to the smallest free slot in which it may
    be stored.
    """
    if not graph.queues:
        return {}
    slots = tuple(_slots(graph, parts))
    found: dict[str, list[QueueGuest]] = {queue.before.name: [] for queue in graph.queues}
    free = sorted(slots, key=lambda slot: slot.row_bytes)
    candidates = (part for part in parts if _may_be_guest(graph, parts, part))
    for part in sorted(candidates, key=lambda part: -part.output.type.size_bytes):
        slot = next((slot for slot in free if slot.admits(part)), None)
        if slot is not None:
            free.remove(slot)
            found[slot.queue.before.name].append(QueueGuest(part.output, slot.row))
    return {name: tuple(guests) for name, guests in found.items()}


@dataclass(frozen=True, slots=True)
class _Slot:
    """A slot of a queue's ring buffer that is unused for some time in each run.

    row: index, in the window of the queue (kept rows, followed by new rows), of the row that is
        stored in the slot.  For row 0, the oldest, the slot is unused after the last read of the
        window; for a new row, until the row is computed.
    guests: names of the tensors that are live only while the slot is unused.
    """

    queue: Queue
    row: int
    guests: frozenset[str]

    @property
    def row_bytes(self) -> int:
        """Size of the slot in bytes."""
        return self.queue.window.type.size_bytes // self.queue.rows

    def admits(self, part: Part) -> bool:
        """Return whether the output of a part may be stored in the slot.

        The output must be live only while the slot is unused, and must not be larger than the slot.
        """
        value = part.output
        return value.name in self.guests and value.type.size_bytes <= self.row_bytes


def _slots(graph: Graph, parts: Sequence[Part]) -> Iterator[_Slot]:
    """Yield those slots of all queues' ring buffers that are unused for some time in each run."""
    before = _earlier(graph, parts)
    readers = _readers(parts)
    cannot_fail = all(p.streamed_input is None and p.kernel.body is None for p in parts)
    producers = {node.name: node for node in graph.nodes}
    for queue in graph.queues:
        new = producers[queue.window.name].inputs[1].name
        earlier = before.get(new, frozenset())
        early = (p.name for p in parts if p.name in readers and readers[p.name] <= earlier)
        yield _Slot(queue, queue.kept_rows, frozenset(early))
        if cannot_fail and not any(state.after in queue.views for state in graph.states):
            found = (readers.get(value.name, frozenset[str]()) for value in queue.views)
            reading = frozenset[str]().union(*found)
            late = (p.name for p in parts if reading <= before.get(p.name, frozenset()))
            yield _Slot(queue, 0, frozenset(late))


def _earlier(graph: Graph, parts: Sequence[Part]) -> Mapping[str, frozenset[str]]:
    """Return the names of the parts on which each part depends, directly or not, by part name.

    The result contains only parts with a single output row, and only dependences through such
    parts.  Such parts run in the order of these dependences, even within a cascade, so `_slots`
    derives from the result which tensors are live only while a slot is unused.  A part that reads
    the newest row of a queue's window depends on the part that computes the new rows.
    """
    producers = graph.producers()
    new = {
        view.name: producers[queue.window.name].inputs[1].name
        for queue in graph.queues
        for view, end_row in _views(queue)
        if end_row == queue.rows
    }
    found: dict[str, frozenset[str]] = {}
    for part in parts:
        if row_count(part.output.type.shape) == 1:
            names = (new.get(value.name, value.name) for value in part.variable_inputs)
            read = [name for name in names if name in found]
            found[part.name] = frozenset(read).union(*(found[name] for name in read))
    return found


def _views(queue: Queue) -> Iterator[tuple[Value, int]]:
    """Yield (tensor, end row) for a queue's window and each slice of it that is read in place.

    End row: the end (exclusive) of the tensor's rows in the window.  It is `queue.rows` if the
    tensor contains the newest row.
    """
    yield queue.window, queue.rows
    for section in queue.sections:
        yield section.value, section.first_row + row_count(section.value.type.shape)


def _readers(parts: Sequence[Part]) -> Mapping[str, frozenset[str]]:
    """Return the names of the parts that read each tensor, by tensor name.

    Tensors that no part reads have no entry.
    """
    found: dict[str, set[str]] = {}
    for part in parts:
        for value in part.variable_inputs:
            found.setdefault(value.name, set()).add(part.name)
    return {name: frozenset(names) for name, names in found.items()}


def _may_be_guest(graph: Graph, parts: Sequence[Part], part: Part) -> bool:
    """Return whether the output of `part` can be stored in a slot of a ring buffer.

    The following rule it out:

    - The output has several rows, is an output of the network, has an alias, or is copied into a
      queue.
    - The part is a streamed input.
    - A kernel that writes or reads the output cannot access ring buffers.
    """
    value = part.output
    windows = (node for node in graph.nodes if value in node.inputs)
    readers = [other for other in parts if value in other.variable_inputs]
    return (
        bool(part.nodes)
        and row_count(value.type.shape) == 1
        and value not in graph.results
        and len(list(windows)) == len(readers)
        and all(_accesses_rings(one) for one in (part, *readers))
    )


def _accesses_rings(part: Part) -> bool:
    """Return whether all kernels of a part can access tensors in ring buffers."""
    kernels: tuple[Kernel, ...] = (part.kernel, *part.prefetching)
    if part.fallback is not None:
        kernels = (*kernels, part.fallback)
    return all(k.by_rows and k.body is None and k.alignment_bytes == 1 for k in kernels)
