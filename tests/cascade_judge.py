"""The stupid judge of the cascade search: sets of rows, recursion, and every partition tried.

It shares no code with `scheduling`: it asks operators which region each row of their output reads,
and plays each cascade with sets of live rows.  The plan space is the search's: an interval of an
order runs as one cascade in stripes of 1, 2, 4, .. rows with either order of asking, and a part
alone also whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import row_axis, row_count
from penstock.ir.region import Region

Point = tuple[int, int]
"""Live bytes at the peak, and cycles that calls add."""
Row = tuple[str, int]
"""A row of a storage: its name and number."""


@dataclass(frozen=True, eq=False)
class Step:
    """A node that computes, or, without one, an input that the caller hands over by rows."""

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
        """Whether it computes some rows and not others."""
        shape = self.output.type.shape
        above = shape[: row_axis(len(shape))]
        return self.kernel_by_rows and len(shape) > 1 and all(extent == 1 for extent in above)

    @cached_property
    def scratch_bytes(self) -> int:
        return 0 if self.node is None else self.node.op.kernel(self.node.site).scratch_bytes


@dataclass(frozen=True, eq=False)
class Judge:
    """A graph whose steps are numbered as they stand in it, streamed inputs before them."""

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
        """By name of a value, whose bytes it is."""
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
        """Inputs that are there before anything runs."""
        return frozenset() if self.stream_input else frozenset(v.name for v in self.graph.inputs)

    @cached_property
    def bytes_at_start(self) -> int:
        """What the caller writes before anything runs, whether or not anybody reads it."""
        return sum(self.storages[name].type.size_bytes for name in self.written_first)

    @cached_property
    def kept(self) -> frozenset[str]:
        """What must be there in the end."""
        outputs = {self.owner[v.name] for v in self.graph.outputs if v.data is None}
        return frozenset(outputs | (self.written_first if self.keep_input else set()))

    def operands(self, k: int) -> list[tuple[int, Value, str]]:
        """(index, value, storage) of every variable input of a step."""
        node = self.steps[k].node
        inputs = () if node is None else node.inputs
        return [(i, v, self.owner[v.name]) for i, v in enumerate(inputs) if v.data is None]

    @cached_property
    def sources(self) -> tuple[tuple[str, ...], ...]:
        """By step, the storages that it reads, in the order of its inputs."""
        every = range(len(self.steps))
        return tuple(tuple(dict.fromkeys(s for _, _, s in self.operands(k))) for k in every)

    @cached_property
    def reads(self) -> Mapping[tuple[int, int, str], frozenset[int]]:
        """By step, row of its output, and storage: the rows of that storage which are read."""
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
            out = out.replace(row_axis(len(shape)), (row, row + 1))
        needs = step.node.op.needs(step.node.site, out)
        mine = ((needs[i], v) for i, v, s in self.operands(k) if s == storage)
        return frozenset(r for need, value in mine for r in self._rows_of(need, value, storage))

    def _rows_of(self, region: Region, value: Value, storage: str) -> Iterator[int]:
        """Rows of a storage in which a region of a value lies."""
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
        """By step, count n, and storage: how many first rows of it the first n of the step need."""
        found: dict[tuple[int, int, str], int] = {}
        for k, step in enumerate(self.steps):
            for s in self.sources[k]:
                found[k, 0, s] = 0
                for row in range(self.rows[step.name]):
                    end = max(self.reads[k, row, s], default=-1) + 1
                    found[k, row + 1, s] = max(found[k, row, s], end)
        return found

    @cached_property
    def contiguous(self) -> frozenset[str]:
        """Storages that somebody sees as one array: the caller, kernels that take whole tensors
        only, and who sees other rows."""
        found = {self.owner[v.name] for v in self.graph.outputs} | self.written_first
        for k, step in enumerate(self.steps):
            seen = [(v, s) for _, v, s in self.operands(k)]
            for value, storage in (*seen, (step.output, step.name)):
                if not step.kernel_by_rows or row_count(value.type.shape) != self.rows[storage]:
                    found.add(storage)
        return frozenset(found)

    @cached_property
    def in_one_place(self) -> frozenset[str]:
        """Storages whose rows lie in one place, each over the one before."""
        nodes = [step.node for step in self.steps if step.node is not None]
        names = {n.name for n in nodes if n.op.kernel(n.site).accumulates}
        return frozenset(names - self.contiguous)

    @cached_property
    def joins(self) -> frozenset[tuple[int, str]]:
        """(step, storage): rows of the step's output may be written over those of the storage."""
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
        """How far the computation of each storage has read ahead, summed up from the inputs."""
        far = dict.fromkeys(self.storages, 0.0)
        for k in order:
            gains = (far[s] + self._gain(k, s) for s in self.sources[k])
            far[self.steps[k].name] = max(gains, default=0.0)
        return far

    def _gain(self, k: int, storage: str) -> float:
        """How far ahead of its own rows a step has read a storage, just behind its middle row."""
        rows = self.rows[self.steps[k].name]
        middle = rows // 2 + 1 if rows > 1 else 1
        every = max(self.needed[k, rows, storage], 1)
        return self.needed[k, middle, storage] / every - middle / rows


class Play:
    """One cascade, played: positions [lower, upper) of an order, in stripes of so many rows (None:
    all); `asks`: in which order a step asks for what it reads."""

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
        """Computes what is read behind the cascade, or nowhere; then the rows nobody asked for."""
        names = {k: self.judge.steps[k].name for k in self.steps}
        last = [k for k, s in names.items() if s in self.behind or not self._readers(s)]
        for k in (*last, *self.steps):
            self._produce(k, self.judge.rows[names[k]])
        return self

    def _readers(self, storage: str) -> list[int]:
        """Steps of the cascade that read a storage."""
        return [k for k in self.steps if storage in self.judge.sources[k]]

    def _produce(self, k: int, target: int) -> None:
        """Rows of a step's output up to a target, each stripe after what it needs."""
        step = self.judge.steps[k]
        while self.produced[step.name] < target:
            first = self.produced[step.name]
            end = min(first + (self.stripe or target), target)
            if not step.by_rows:
                end = self.judge.rows[step.name]
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
        """The first row that anybody will read again; rows die from the first on, when somebody
        has written or read rows of their storage."""
        if storage in self.behind:
            return 0
        found = [self.judge.rows[storage]]
        if storage in self.judge.in_one_place and storage in self.maker:
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
    """Every distinct point that covers the order with cascades, those of every partition."""
    far = judge.ahead(order)
    asks: tuple[Callable[[int], list[str]], ...] = (
        lambda k: sorted(judge.sources[k], key=lambda s: -far[s]),
        lambda k: sorted(judge.sources[k], key=lambda s: far[s]),
    )
    most = min(most_stripe, max(judge.rows.values()) - 1)
    stripes = [2**k for k in range(20) if 2**k <= most]

    def plans(lower: int, upper: int) -> Iterator[Point]:
        for stripe, ask in product((*stripes, *([None] if upper == lower + 1 else [])), asks):
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
    """Those that no other is as good as."""
    return sorted(
        one
        for one in found
        if not any(o != one and o[0] <= one[0] and o[1] <= one[1] for o in found)
    )
