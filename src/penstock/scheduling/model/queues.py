"""QueueMemory: the ring buffer of a queue, which keeps the last rows of a sequence between runs.

The window of a queue is the kept rows, followed by the new rows of a run.  A window of N rows is
stored in a ring of N slots.  A counter states which slot holds row 0 of the window.  At the end of
a run, the counter advances by the number of new rows, modulo N, so the kept rows do not move.

The part that computes the new rows writes them into the ring, so they have no memory of their own.
Neither do guests: tensors in slots that hold no row of the queue (`QueueGuest`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.frozen import frozen
from penstock.ir.graph import Graph, Queue, Value, free_name
from penstock.ir.op import Kernel
from penstock.ir.tensor import row_count
from penstock.scheduling.model.part import Part

COUNTER_BYTES = 2
"""Size of the counter of a ring, a number of 16 bits."""


@frozen
class QueueMemory:
    """Names of the storages of a queue.

    The window of a queue is the rows kept from the previous run, followed by the new rows.

    ring: storage of all rows of the window, live at all times.  Its name is that of the kept rows.
    counter: storage of the counter, live at all times.  The counter states which slot of the ring
        holds row 0 of the window.
    new: storage of the new rows.  It has no memory of its own, since the ring holds the new rows.
    guests: tensors that are stored in slots of the ring while these hold no row of the queue.
    """

    queue: Queue
    ring: str
    counter: str
    new: str
    guests: tuple[QueueGuest, ...] = ()

    @property
    def inside(self) -> tuple[str, ...]:
        """Names of the storages that are part of the ring and have no memory of their own."""
        return (self.new, *(guest.value.name for guest in self.guests))

    def place(self, value: str) -> tuple[int, int]:
        """Return (row, byte): where the value named `value` begins in the window of the queue.

        Row r of the value begins at byte `byte` of row `row` + r of the window.
        """
        if value in (self.queue.before.name, self.queue.window.name):
            return 0, 0
        for section in self.queue.sections:
            if section.value.name == value:
                return section.first_row, section.first_byte
        for guest in self.guests:
            if guest.value.name == value:
                return guest.row, 0
        return self.kept_rows, 0

    @property
    def kept_rows(self) -> int:
        """Number of rows that are kept from run to run."""
        return self.queue.kept_rows

    @property
    def row_bytes(self) -> int:
        """Size of a row in bytes."""
        return self.queue.before.type.size_bytes // self.queue.kept_rows


def queue_memories(
    graph: Graph, owners: Mapping[str, str], guests: Guests
) -> tuple[QueueMemory, ...]:
    """Return how each queue of a graph is stored.

    A queue keeps the last rows of a sequence from one run to the next.
    owners: name of the storage of each value, by value name.
    guests: for each queue, the tensors that are stored in unused slots of its ring.  The key is the
        name of the value that holds the queue's kept rows (`Queue.before`).
    """
    names = graph.names()
    return tuple(
        QueueMemory(
            queue,
            queue.before.name,
            free_name(f"{queue.before.name}/counter", names),
            owners[queue.window.name],
            guests[queue.before.name],
        )
        for queue in graph.queues
    )


@frozen
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


@frozen
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
        if row_count(part.output.shape) == 1:
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
        yield section.value, section.first_row + row_count(section.value.shape)


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
        and row_count(value.shape) == 1
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
