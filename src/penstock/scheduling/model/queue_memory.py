"""QueueMemory: how the rows of a queue are stored.

The window of a queue with N rows is stored in a ring of N slots.  A counter states in which slot
row 0 of the window is; each run ends by advancing it by the number of new rows, modulo N.  So the
rows that are kept stay where they are.  The part that computes the new rows writes them directly
into the ring: their storage has no memory of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.ir.graph import Graph, Queue, free_name

COUNTER_BYTES = 2
"""Size of the counter of a ring, a number of 16 bits."""


@dataclass(frozen=True, slots=True)
class QueueMemory:
    """The storages of a queue.

    ring: storage of all rows of the window, in memory throughout; it has the name of
        `queue.before`.
    counter: storage of the counter, in memory throughout.
    new: storage of the new rows, which are part of the ring.
    """

    queue: Queue
    ring: str
    counter: str
    new: str

    def first_row(self, value: str) -> int:
        """Return the row of the window that is row 0 of a value stored in the ring."""
        return 0 if value in (self.queue.before.name, self.queue.window.name) else self.kept_rows

    @property
    def kept_rows(self) -> int:
        """Number of rows that are kept from run to run."""
        return self.queue.kept_rows

    @property
    def row_bytes(self) -> int:
        """Size of a row in bytes."""
        return self.queue.before.type.size_bytes // self.queue.kept_rows


def queue_memories(graph: Graph, owners: Mapping[str, str]) -> tuple[QueueMemory, ...]:
    """Return the storages of each queue of a graph.

    owners: name of the storage of each value, by value name.
    """
    names = graph.names()
    return tuple(
        QueueMemory(
            queue,
            queue.before.name,
            free_name(f"{queue.before.name}/counter", names),
            owners[queue.window.name],
        )
        for queue in graph.queues
    )
