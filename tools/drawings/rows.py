"""A chain of layers with windows of three rows, run layer by layer or as a cascade."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WINDOW_ROWS = 3


@dataclass(frozen=True, slots=True)
class Step:
    """The rows of every tensor while a kernel computes a row of one of them.

    tensor, row: what the kernel computes.
    live: the rows of each tensor that are in memory, by tensor.
    """

    tensor: int
    row: int
    live: tuple[frozenset[int], ...]


def needed(row: int, rows: int) -> range:
    """Return the input rows that a row of the output reads; the borders are padded."""
    reach = WINDOW_ROWS // 2
    return range(max(row - reach, 0), min(row + reach + 1, rows))


def layer_by_layer(tensors: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield (tensor, row) in the order in which whole layers compute them."""
    for tensor in range(1, tensors):
        for row in range(rows):
            yield tensor, row


def cascaded(tensors: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield (tensor, row) as rows of the last tensor request them."""
    computed = [rows, *(0 for _ in range(1, tensors))]

    def demand(tensor: int, row: int) -> Iterator[tuple[int, int]]:
        while computed[tensor] <= row:
            for below in needed(computed[tensor], rows):
                yield from demand(tensor - 1, below)
            yield tensor, computed[tensor]
            computed[tensor] += 1

    for row in range(rows):
        yield from demand(tensors - 1, row)


def steps(order: Sequence[tuple[int, int]], tensors: int, rows: int) -> tuple[Step, ...]:
    """Return the live rows at each step of an order: rows of the input are live from the start,
    those of the output to the end, all others from their computation to their last use.
    """
    last_use = {(0, row): -1 for row in range(rows)}
    first = {(0, row): 0 for row in range(rows)}
    for time, (tensor, row) in enumerate(order):
        first[tensor, row] = time
        last_use[tensor, row] = len(order) if tensor == tensors - 1 else time
        for below in needed(row, rows):
            last_use[tensor - 1, below] = time
    return tuple(
        Step(
            *order[time],
            tuple(
                frozenset(r for r in range(rows) if first[t, r] <= time <= last_use[t, r])
                for t in range(tensors)
            ),
        )
        for time in range(len(order))
    )
