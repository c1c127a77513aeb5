"""QueueMemory: the ring buffer of a queue, which keeps the last rows of a sequence between runs.

The window of a queue is the kept rows, followed by the new rows of a run.  A window of N rows is
stored in a ring of N slots.  A counter states which slot holds row 0 of the window.  At the end of
a run, the counter advances by the number of new rows, modulo N, so the kept rows do not move.

The part that computes the new rows writes them into the ring, so they have no memory of their own.
Neither do guests: tensors in slots that hold no row of the queue (`queue_guests.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.ir.graph import Graph, Queue, free_name
from penstock.scheduling.model.queue_guests import Guests, QueueGuest

COUNTER_BYTES = 2
"""Size of the counter of a ring, a number of 16 bits."""


@dataclass(frozen=True, slots=True)
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
