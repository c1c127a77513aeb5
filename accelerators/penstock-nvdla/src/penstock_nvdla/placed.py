"""placed: cycles of kernel calls, given the addresses of the rows of their tensors.

The addresses determine how many hardware layers a call takes.  In a ring that wraps around, for
example, rows have no constant pitch.  Several layers then compute the output rows; if even the
input rows of one window have no constant pitch, further layers first copy them to scratch
(`row_pieces.pieces`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add

from penstock.uma import Breakdown, Offloaded, PlacedCall, PlacedRows
from penstock_nvdla.dataflow import layer_cycles
from penstock_nvdla.kernels import tasks
from penstock_nvdla.programs import input_copy_task
from penstock_nvdla.row_pieces import TaskPiece, pieces
from penstock_nvdla.task import Task


@dataclass(frozen=True, slots=True)
class AddressedRows:
    """The addresses of the rows of a tensor; implements `row_pieces.RowAddresses`.

    rows: the rows of the tensor, with their addresses."""

    rows: PlacedRows

    def between(self, lower: int, upper: int) -> Sequence[int]:
        """Return the address in bytes of each row in [lower, upper)."""
        return self.rows.addresses[lower:upper].tolist()


def placed_cycles(offloaded: Offloaded, call: PlacedCall) -> Breakdown:
    """Return the cycles of a call that follows another one in the queue of layers.

    call: the output rows to compute, and the addresses of the rows of all tensors."""
    found: list[Breakdown] = []
    for one in tasks(offloaded):
        inputs = [call.inputs[k] for k in one.inputs]
        placed = [rows for rows in (*inputs, call.output) if rows is not None]
        names = (*("features", "second")[: len(inputs)], "output")
        inside = frozenset(
            name
            for name, rows in zip(names, placed, strict=True)
            if rows.memory != call.beside  # scratch is in main memory
        )
        addressed = [AddressedRows(rows) for rows in placed]
        every = pieces(one.task, addressed, call.first, call.end)
        found += (piece_cycles(one.task, piece, inside) for piece in every)
    return reduce(add, found)


@lru_cache(maxsize=1 << 14)
def piece_cycles(task: Task, piece: TaskPiece, inside: frozenset[str]) -> Breakdown:
    """Return the cycles of the hardware layers that compute some rows of a task.

    inside: the tensors in the feature buffer, each named by its field of `LayerTraffic`, such as
        "output".  All others are in main memory."""
    layers = list(task.layers_with_traffic(piece.first, piece.end))
    if not piece.gathered:
        return reduce(add, (layer_cycles(task.hardware, *one, inside) for one in layers))
    lower, upper = task.reads(piece.first, piece.end)
    copies = input_copy_task(task).layers_with_traffic(0, 1)
    copied = [layer_cycles(task.hardware, *one, inside & {"features"}) for one in copies]
    computed = [layer_cycles(task.hardware, *one, inside - {"features"}) for one in layers]
    return reduce(add, (*copied * (upper - lower), *computed))
