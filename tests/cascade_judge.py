"""An exhaustive reference for the cascade search, with sets of rows and recursion.

It shares no code with `scheduling`. It asks operators which region each output row reads, simulates
each cascade with sets of live rows, and tries every partition. Its search space is that of the
search: an interval of an order runs as one cascade in stripes of 1, 2, 4, .. rows, or of an image
of several, in either production order, and a single part also runs whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Region, row_axis, row_count

Point = tuple[int, int]
"""Peak of live bytes, and call overhead in cycles."""
Row = tuple[str, int]
"""A row of a storage: name of the storage, index of the row."""


@dataclass(frozen=True, eq=False)
class Step:
    """A node, or, if `node` is None, a streamed input whose rows the caller provides."""

    node: Node | None
    output: Value

    @property
    def name(self) -> str:
        return self.output.name

    @cached_property
    def kernel_by_rows(self) -> bool:
        return self.node is None or self.node.op.kernel(self.node.site).by_rows

    @cached_property
    def by_rows(self) -> bool:
        """Whether the step computes single rows."""
        shape = self.output.type.shape
        goes_on = self.node is not None and self.node.op.kernel(self.node.site).recurrent
        one_image = self.image_rows == row_count(shape)
        return self.kernel_by_rows and len(shape) > 1 and (one_image or not goes_on)

    @cached_property
    def image_rows(self) -> int:
        """Rows with the same indices along the axes before theirs; no call has rows of others."""
        shape = self.output.type.shape
        return shape[row_axis(len(shape))]

    @cached_property
    def scratch_bytes(self) -> int:
        return 0 if self.node is None else self.node.op.kernel(self.node.site).scratch_bytes


@dataclass(frozen=True, eq=False)
class Judge:
    """A graph with numbered steps: streamed inputs, then nodes in graph order."""

    graph: Graph
    stream_input: bool = False
    keep_input: bool = False

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        streamed = self.graph.inputs if self.stream_input else ()
        nodes = (n for n in self.graph.nodes if not n.op.ALIAS)
        return (*(Step(None, v) for v in streamed), *(Step(n, n.output) for n in nodes))

    @cached_property
    def owner(self) -> Mapping[str, str]:
        """The storage of every value, by name; aliases share a storage."""
        found = {v.name: v.name for v in self.graph.variables()}
        for node in self.graph.nodes:
            if node.op.ALIAS and node.inputs[0].data is None:
                found[node.name] = found[node.inputs[0].name]
        return found

    @cached_property
    def storages(self) -> Mapping[str, Value]:
        return {v.name: v for v in self.graph.variables() if self.owner[v.name] == v.name}

    @cached_property
    def rows(self) -> Mapping[str, int]:
        return {name: row_count(value.type.shape) for name, value in self.storages.items()}

    @cached_property
    def row_bytes(self) -> Mapping[str, int]:
        return {name: v.type.size_bytes // self.rows[name] for name, v in self.storages.items()}

    @cached_property
    def written_first(self) -> frozenset[str]:
        """Inputs that are in memory before the first step."""
        return frozenset() if self.stream_input else frozenset(v.name for v in self.graph.inputs)

    @cached_property
    def bytes_at_start(self) -> int:
        """Bytes that the caller writes before the first step, including inputs without readers."""
        return sum(self.storages[name].type.size_bytes for name in self.written_first)

    @cached_property
    def kept(self) -> frozenset[str]:
        """Storages that must be live after the last step."""
        outputs = {self.owner[v.name] for v in self.graph.outputs if v.data is None}
        return frozenset(outputs | (self.written_first if self.keep_input else set()))

    def operands(self, k: int) -> list[tuple[int, Value, str]]:
        """(index, value, storage) of every variable input of a step."""
        node = self.steps[k].node
        inputs = () if node is None else node.inputs
        return [(i, v, self.owner[v.name]) for i, v in enumerate(inputs) if v.data is None]

    @cached_property
    def sources(self) -> tuple[tuple[str, ...], ...]:
        """Storages that each step reads, in input order."""
        every = range(len(self.steps))
        return tuple(tuple(dict.fromkeys(s for _, _, s in self.operands(k))) for k in every)

    @cached_property
    def reads(self) -> Mapping[tuple[int, int, str], frozenset[int]]:
        """Rows of a storage that a step reads, by (step, output row, storage)."""
        return {
            (k, row, storage): self._rows_read(k, row, storage)
            for k, step in enumerate(self.steps)
            for storage in self.sources[k]
            for row in range(self.rows[step.name])
        }

    def _rows_read(self, k: int, row: int, storage: str) -> frozenset[int]:
        step = self.steps[k]
        assert step.node is not None
        shape = step.output.type.shape
        out = Region.whole(shape)
        if step.by_rows:
            axes = shape[: row_axis(len(shape)) + 1]
            for axis, index in enumerate(map(int, np.unravel_index(row, axes))):
                out = out.replace(axis, (index, index + 1))
        needs = step.node.op.needs(step.node.site, out)
        mine = ((needs[i], v) for i, v, s in self.operands(k) if s == storage)
        return frozenset(r for need, value in mine for r in self._rows_of(need, value, storage))

    def _rows_of(self, region: Region, value: Value, storage: str) -> Iterator[int]:
        """Rows of a storage that contain a region of a value."""
        shape = value.type.shape
        if region.empty:
            return
        if row_count(shape) != self.rows[storage]:
            yield from range(self.rows[storage])
            return
        axes = row_axis(len(shape)) + 1 if len(shape) > 1 else 0
        for index in product(*(range(*pair) for pair in region.intervals[:axes])):
            row = 0
            for i, extent in zip(index, shape, strict=False):
                row = row * extent + i
            yield row

    @cached_property
    def needed(self) -> Mapping[tuple[int, int, str], int]:
        """Number of leading rows of a storage that the first n rows of a step need, by (step, n,
        storage)."""
        found: dict[tuple[int, int, str], int] = {}
        for k, step in enumerate(self.steps):
            for s in self.sources[k]:
                found[k, 0, s] = 0
                for row in range(self.rows[step.name]):
                    end = max(self.reads[k, row, s], default=-1) + 1
                    found[k, row + 1, s] = max(found[k, row, s], end)
        return found

    def is_late(self, k: int) -> bool:
        """Whether a step reads no row of the first half of one of its inputs."""
        steps = range(self.rows[self.steps[k].name])
        return any(
            rows > 1 and 2 * min(min(self.reads[k, row, s], default=rows) for row in steps) >= rows
            for s in self.sources[k]
            for rows in (self.rows[s],)
        )

    @cached_property
    def contiguous(self) -> frozenset[str]:
        """Storages that must be arrays: the caller or a kernel reads them whole, or another value
        views them with other rows."""
        found = {self.owner[v.name] for v in self.graph.outputs} | self.written_first
        for k, step in enumerate(self.steps):
            seen = [(v, s) for _, v, s in self.operands(k)]
            for value, storage in (*seen, (step.output, step.name)):
                if not step.kernel_by_rows or row_count(value.type.shape) != self.rows[storage]:
                    found.add(storage)
        return frozenset(found)

    @cached_property
    def in_one_place(self) -> frozenset[str]:
        """Storages whose rows share one slot, each overwriting the previous one."""
        nodes = [step.node for step in self.steps if step.node is not None]
        names = {n.name for n in nodes if n.op.kernel(n.site).accumulates}
        return frozenset(names - self.contiguous)

    @cached_property
    def recurrent(self) -> frozenset[str]:
        """Storages of which each row is computed from the previous one."""
        nodes = [step.node for step in self.steps if step.node is not None]
        return frozenset(n.name for n in nodes if n.op.kernel(n.site).recurrent)

    @cached_property
    def joins(self) -> frozenset[tuple[int, str]]:
        """(step, storage) where rows of the output may overwrite rows of the storage."""
        every = range(len(self.steps))
        return frozenset((k, s) for k in every for s in self.sources[k] if self._may_join(k, s))

    def _may_join(self, k: int, storage: str) -> bool:
        step, there = self.steps[k], self.storages[storage]
        assert step.node is not None
        mine = [(i, v) for i, v, s in self.operands(k) if s == storage]
        allowed = step.node.op.in_place(step.node.site)
        readers = sum(storage in sources for sources in self.sources)
        return (
            all(i in allowed for i, _ in mine)
            and {row_count(v.type.shape) for _, v in mine} == {self.rows[storage]}
            and self.rows[step.name] == self.rows[storage]
            and there.type.size_bytes == step.output.type.size_bytes
            and (step.name not in self.contiguous or (storage in self.contiguous and readers == 1))
        )

    def ahead(self, order: tuple[int, ...]) -> Mapping[str, float]:
        """Read-ahead distance of each storage, accumulated from the inputs."""
        far = dict.fromkeys(self.storages, 0.0)
        for k in order:
            gains = (far[s] + self._gain(k, s) for s in self.sources[k])
            far[self.steps[k].name] = max(gains, default=0.0)
        return far

    def _gain(self, k: int, storage: str) -> float:
        """Read-ahead distance of a step on a storage, right after its middle row."""
        rows = self.rows[self.steps[k].name]
        middle = rows // 2 + 1 if rows > 1 else 1
        every = max(self.needed[k, rows, storage], 1)
        return self.needed[k, middle, storage] / every - middle / rows


class Play:
    """The simulation of one cascade.

    The cascade covers positions [lower, upper) of an order, in stripes of a number of rows (None:
    all); `asks`: the order in which a step requests its inputs.
    """

    def __init__(
        self,
        judge: Judge,
        order: tuple[int, ...],
        lower: int,
        upper: int,
        stripe: int | None,
        asks: Callable[[int], list[str]],
    ) -> None:
        self.judge, self.stripe, self.asks = judge, stripe, asks
        self.steps = order[lower:upper]
        self.maker = {judge.steps[k].name: k for k in self.steps}
        self.behind = judge.kept.union(*(judge.sources[k] for k in order[upper:]))
        before = judge.written_first.union(judge.steps[k].name for k in order[:lower])
        there = before & self.behind.union(*(judge.sources[k] for k in self.steps))
        self.produced = dict.fromkeys(self.maker, 0)
        self.live = {(s, r) for s in there for r in range(judge.rows[s])}
        self.peak_bytes = 0
        self.called: list[int] = []

    def run(self) -> Play:
        """Computes the rows that later cascades or outputs read, then the rows without readers.

        Steps that begin with late rows of an input run after the others, the last one first."""
        names = {k: self.judge.steps[k].name for k in self.steps}
        last = [k for k, s in names.items() if s in self.behind or not self._readers(s)]
        early = [k for k in last if not self.judge.is_late(k)]
        for k in (*early, *reversed(last), *self.steps):
            self._produce(k, self.judge.rows[names[k]])
        return self

    def _readers(self, storage: str) -> list[int]:
        """Steps of the cascade that read a storage."""
        return [k for k in self.steps if storage in self.judge.sources[k]]

    def _produce(self, k: int, target: int) -> None:
        """Computes rows of a step up to a target; before each stripe, the rows that it needs."""
        step = self.judge.steps[k]
        while self.produced[step.name] < target:
            first = self.produced[step.name]
            end = min(first + (self.stripe or target), target)
            rows = self.judge.rows[step.name]
            if not step.by_rows:
                end = rows
            elif end - first < rows:
                end = min(end, (first // step.image_rows + 1) * step.image_rows)
            for storage in self.asks(k):
                if storage in self.maker:
                    self._produce(self.maker[storage], self.judge.needed[k, end, storage])
            self._call(k, first, end)

    def _call(self, k: int, first: int, end: int) -> None:
        name = self.judge.steps[k].name
        self.produced[name] = end
        rows = {(name, r) for r in range(first, end)}
        again = {s: self._read_again(s) for s in (name, *self.judge.sources[k])}
        left = {(s, r) for s, r in self.live | rows if r >= again.get(s, 0)}
        joined = any(
            (k, s) in self.judge.joins and {(s, r) for r in range(first, end)} <= self.live - left
            for s in self.asks(k)
        )
        scratch = max(self.judge.steps[k].scratch_bytes for k in self.steps)
        during = self._bytes(self.live | (set() if joined else rows))
        self.peak_bytes = max(self.peak_bytes, scratch + during)
        self.called.append(k)
        self.live = left

    def _read_again(self, storage: str) -> int:
        """The first row that is read again.

        Rows die in ascending order, after a step has written or read rows of their storage.
        """
        if storage in self.behind:
            return 0
        found = [self.judge.rows[storage]]
        if storage in self.judge.recurrent and storage in self.maker:
            made = self.produced[storage]
            found += [made - 1] if made < self.judge.rows[storage] else []
        for b in self._readers(storage):
            name = self.judge.steps[b].name
            left = range(self.produced[name], self.judge.rows[name])
            found += [row for r in left for row in self.judge.reads[b, r, storage]]
        return min(found)

    def _bytes(self, rows: set[Row]) -> int:
        shared = self.judge.in_one_place
        places = {(storage, 0 if storage in shared else row) for storage, row in rows}
        return sum(self.judge.row_bytes[storage] for storage, _ in places)


def points(
    judge: Judge, order: tuple[int, ...], most_stripe: int, call_cycles: Callable[[int], int]
) -> set[Point]:
    """Distinct points of all partitions of the order into cascades."""
    far = judge.ahead(order)
    asks: tuple[Callable[[int], list[str]], ...] = (
        lambda k: sorted(judge.sources[k], key=lambda s: -far[s]),
        lambda k: sorted(judge.sources[k], key=lambda s: far[s]),
    )
    most = min(most_stripe, max(judge.rows.values()) - 1)
    images = {s.image_rows for s in judge.steps if s.image_rows < judge.rows[s.name]}
    heights = {2**k for k in range(20)} | images
    stripes: list[int | None] = [n for n in sorted(heights) if n <= most]

    def plans(lower: int, upper: int) -> Iterator[Point]:
        alone: list[int | None] = [None] if upper == lower + 1 else []
        for stripe, ask in product(stripes + alone, asks):
            play = Play(judge, order, lower, upper, stripe, ask).run()
            yield play.peak_bytes, sum(map(call_cycles, play.called))

    reached: list[set[Point]] = [{(judge.bytes_at_start, 0)}]
    for upper in range(1, len(order) + 1):
        here: set[Point] = set()
        for lower in range(upper):
            found = set(plans(lower, upper))
            here |= {
                (max(peak, p), cycles + c) for peak, cycles in reached[lower] for p, c in found
            }
        reached.append(here)
    return reached[-1]


def efficient(found: set[Point]) -> list[Point]:
    """The Pareto-optimal points."""
    return sorted(
        one
        for one in found
        if not any(o != one and o[0] <= one[0] and o[1] <= one[1] for o in found)
    )
