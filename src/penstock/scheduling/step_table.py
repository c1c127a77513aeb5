"""StepTable: an OrderProblem in bit masks, for the searches. Bit i of a mask is step i.

A *state* is the set of steps that are done, as a mask; what is live in it follows from it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import rustworkx as rx

from penstock.scheduling.steps import OrderProblem, graph_of, shared_bytes


@dataclass(frozen=True, slots=True)
class Read:
    """A tensor that a step reads and that may die: its size, and who else reads it, as a mask."""

    others: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tensors that share memory if no one else will read the one read."""

    others: int
    read: str
    written: str
    saved_bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    """One step: what it takes, and what it leaves."""

    before: int  # mask of the steps that write what it reads
    after: tuple[int, ...]  # the steps that read what it writes
    ancestors: int
    descendants: int
    added_bytes: int  # all that it writes, and its scratch
    lasting_bytes: int  # what it writes and someone still wants
    reads: tuple[Read, ...]
    pairs: tuple[Pair, ...]
    must_bytes: int  # live while it runs, in every order


@dataclass(frozen=True, slots=True)
class StepTable:
    """Rows in the problem's order, and what is live before the first step."""

    rows: tuple[Row, ...]
    start_bytes: int
    graph: rx.PyDiGraph[int, str]

    @property
    def everything(self) -> int:
        """The state in which all steps are done."""
        return (1 << len(self.rows)) - 1

    def run(self, done: int, live_bytes: int, step: int) -> tuple[int, int]:
        """Bytes live while a step runs in a state, and after it."""
        row = self.rows[step]
        during = live_bytes + row.added_bytes
        if row.pairs:
            during -= self._shared(done, row)
        live_bytes += row.lasting_bytes
        for read in row.reads:
            if not read.others & ~done:
                live_bytes -= read.size_bytes
        return during, live_bytes

    def ready_after(self, done: int, step: int) -> int:
        """Mask of the steps that become ready by `step`, which is in `done`."""
        ready = 0
        for i in self.rows[step].after:
            if not self.rows[i].before & ~done:
                ready |= 1 << i
        return ready

    def peak(self, done: int, live_bytes: int, order: Iterable[int]) -> tuple[int, int]:
        """The most bytes live while steps run in order from a state, and those live after them."""
        peak = live_bytes
        for step in order:
            during, live_bytes = self.run(done, live_bytes, step)
            done |= 1 << step
            peak = max(peak, during)
        return peak, live_bytes

    def _shared(self, done: int, row: Row) -> int:
        pairs = [pair for pair in row.pairs if not pair.others & ~done]
        if len(pairs) <= 1:
            return pairs[0].saved_bytes if pairs else 0
        return shared_bytes(tuple((p.read, p.written, p.saved_bytes) for p in pairs))


def bits(mask: int) -> Iterator[int]:
    """The steps of a mask, in order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(steps: Iterable[int]) -> int:
    """The mask of some steps."""
    mask = 0
    for step in steps:
        mask |= 1 << step
    return mask


def table_of(problem: OrderProblem) -> StepTable:
    """The table of a problem."""
    graph = graph_of(problem)
    sizes = dict(problem.sizes)
    read_by = {name: 0 for name in sizes}
    for i, step in enumerate(problem.steps):
        for name in step.reads:
            read_by[name] |= 1 << i
    kept = set(problem.outputs) | (set(problem.inputs) if problem.keep_inputs else set[str]())
    lines = _Lines(problem, graph, sizes, read_by, kept)
    start = sum(sizes[name] for name in set(problem.inputs) if read_by[name] or name in kept)
    return StepTable(tuple(lines.row(i) for i in range(len(problem.steps))), start, graph)


class _Lines:
    """What is upstream and downstream of every step, gathered once."""

    def __init__(
        self,
        problem: OrderProblem,
        graph: rx.PyDiGraph[int, str],
        sizes: dict[str, int],
        read_by: dict[str, int],
        kept: set[str],
    ) -> None:
        self.problem, self.graph = problem, graph
        self.sizes, self.read_by, self.kept = sizes, read_by, kept
        bit = {name: 1 << i for i, name in enumerate(sizes)}
        self.names = list(sizes)
        self.kept_mask = sum(bit[name] for name in kept)
        self.reads = [sum(bit[n] for n in set(step.reads)) for step in problem.steps]
        self.writes = [sum(bit[n] for n in set(step.writes)) for step in problem.steps]
        given = sum(bit[name] for name in set(problem.inputs))
        count = len(problem.steps)
        self.ancestors, self.written = [0] * count, [given] * count  # before a step
        self.descendants, self.wanted = [0] * count, [0] * count  # after a step
        order = list(rx.topological_sort(graph))
        for i in order:
            for j in graph.successor_indices(i):
                self.ancestors[j] |= self.ancestors[i] | 1 << i
                self.written[j] |= self.written[i] | self.writes[i]
        for j in reversed(order):
            for i in graph.predecessor_indices(j):
                self.descendants[i] |= self.descendants[j] | 1 << j
                self.wanted[i] |= self.wanted[j] | self.reads[j]

    def row(self, i: int) -> Row:
        step, sizes = self.problem.steps[i], self.sizes
        writes = tuple(dict.fromkeys(step.writes))
        lasting = [n for n in writes if self.read_by[n] or n in self.kept]
        dying = [n for n in dict.fromkeys(step.reads) if n not in self.kept]
        pairs = [
            Pair(self.read_by[r] & ~(1 << i), r, w, min(sizes[r], sizes[w]))
            for r, w in dict.fromkeys(step.in_place)
            if r not in self.kept
        ]
        return Row(
            before=mask_of(self.graph.predecessor_indices(i)),
            after=tuple(sorted(self.graph.successor_indices(i))),
            ancestors=self.ancestors[i],
            descendants=self.descendants[i],
            added_bytes=sum(sizes[n] for n in writes) + step.scratch_bytes,
            lasting_bytes=sum(sizes[n] for n in lasting),
            reads=tuple(Read(self.read_by[n] & ~(1 << i), sizes[n]) for n in dying),
            pairs=tuple(pairs),
            must_bytes=self._must(i, pairs),
        )

    def _must(self, i: int, pairs: list[Pair]) -> int:
        """Bytes of what was written upstream and is wanted downstream, or is used by step i."""
        must = self.written[i] & (self.wanted[i] | self.kept_mask) | self.reads[i] | self.writes[i]
        possible = (p for p in pairs if not p.others & self.descendants[i])
        shared = shared_bytes(tuple((p.read, p.written, p.saved_bytes) for p in possible))
        live = sum(self.sizes[self.names[tensor]] for tensor in bits(must))
        return live + self.problem.steps[i].scratch_bytes - shared
