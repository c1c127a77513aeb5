"""Order: the execution order of least peak memory, with a certificate or a proven gap.

    file order -> pieces -> heuristic orders -> best-first search -> beam, where that gave up
                  (cut at steps that every order runs at the same point)

The peak of an order is the largest of its pieces' peaks, so only the pieces that stand out are
searched. The searches are bounded by counted states, never by time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.scheduling.step_orders import Heuristic, heuristic_order
from penstock.scheduling.step_search import OrderTricks, Piece, StepSearch
from penstock.scheduling.step_table import StepTable, bits, table_of
from penstock.scheduling.steps import OrderProblem

BEAM_WIDTH = 16
"""States that a beam keeps per number of steps."""


@dataclass(frozen=True, slots=True)
class OrderOptions:
    """How much the search may spend, and by which tricks: states over all pieces; the width of the
    beam where the exact search gave up, 0: none."""

    max_states: int = 20_000
    beam_width: int = BEAM_WIDTH
    tricks: OrderTricks = field(default_factory=OrderTricks)


@dataclass(frozen=True, slots=True)
class Order:
    """Indices of the problem's steps in the order in which to run them."""

    order: tuple[int, ...]
    peak_bytes: int
    bound_bytes: int  # proven: no order has a lower peak
    file_peak_bytes: int  # of the order in which the steps were given
    states: int  # work spent

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no order has a lower peak."""
        return self.peak_bytes == self.bound_bytes

    @property
    def gap(self) -> float:
        """0.0 where proven optimal, else how far the peak is above the bound, as a fraction."""
        return (self.peak_bytes - self.bound_bytes) / max(self.bound_bytes, 1)


def find_order(problem: OrderProblem, options: OrderOptions | None = None) -> Order:
    """The order of least peak that was found; the order given, where none is better."""
    options = options or OrderOptions()
    table = table_of(problem)
    orders = {heuristic: heuristic_order(table, heuristic) for heuristic in Heuristic}
    file_peak, _ = table.peak(0, table.start_bytes, orders[Heuristic.FILE])
    ranks = [{step: rank for rank, step in enumerate(order)} for order in orders.values()]
    parts = [_Part.of(table, piece, ranks) for piece in pieces(table, options.tricks.split)]
    must = max((row.must_bytes for row in table.rows), default=0)
    run = _Run(table, options, bound=max(must, table.start_bytes))
    for part in sorted(parts, key=lambda part: -part.peak):
        run.improve(part)
    order = tuple(step for part in parts for step in part.order_within(run.reached))
    peak, _ = table.peak(0, table.start_bytes, order)
    return Order(order, peak, run.bound, file_peak, run.states)


def order_by(problem: OrderProblem, heuristic: Heuristic) -> Order:
    """An order by name; nothing is proven of it."""
    table = table_of(problem)
    order = heuristic_order(table, heuristic)
    peak, _ = table.peak(0, table.start_bytes, order)
    file_peak, _ = table.peak(0, table.start_bytes, heuristic_order(table, Heuristic.FILE))
    return Order(order, peak, 0, file_peak, 0)


def pieces(table: StepTable, split: bool = True) -> list[Piece]:
    """Pieces between steps that are before or after every other step, each with its last such."""
    count = len(table.rows)
    ends = {table.everything}
    for i, row in enumerate(table.rows):
        if split and row.ancestors.bit_count() + row.descendants.bit_count() == count - 1:
            ends.add(row.ancestors | 1 << i)
    found: list[Piece] = []
    done, live = 0, table.start_bytes
    for end in sorted(ends - {0}, key=int.bit_count):
        found.append(Piece(done, live, end))
        _, live = table.peak(done, live, _some_order(table, done, end))
        done = end
    return found


def _some_order(table: StepTable, done: int, end: int) -> list[int]:
    return sorted(bits(end & ~done), key=lambda i: table.rows[i].ancestors.bit_count())


@dataclass(slots=True)
class _Part:
    """A piece, the order of it that was given, and the best so far."""

    piece: Piece
    file_order: tuple[int, ...]
    file_peak: int
    order: tuple[int, ...]
    peak: int

    @staticmethod
    def of(table: StepTable, piece: Piece, ranks: list[dict[int, int]]) -> _Part:
        """`ranks`: places of steps in each order that is known, the one given first."""
        steps = tuple(bits(piece.goal & ~piece.done))
        inside = [tuple(sorted(steps, key=rank.__getitem__)) for rank in ranks]
        peaks = [table.peak(piece.done, piece.live_bytes, order)[0] for order in inside]
        best = peaks.index(min(peaks))
        return _Part(piece, inside[0], peaks[0], inside[best], peaks[best])

    def order_within(self, peak: int) -> tuple[int, ...]:
        """The order given, where that stays within a peak, else the best."""
        return self.file_order if self.file_peak <= peak else self.order


@dataclass(slots=True)
class _Run:
    """What is proven and what is spent, over the pieces searched so far."""

    table: StepTable
    options: OrderOptions
    bound: int  # no order of all steps has a lower peak
    reached: int = 0  # the largest peak of the pieces seen so far
    states: int = 0

    def improve(self, part: _Part) -> None:
        """Search a better order of a piece, if its peak stands out."""
        if part.peak > max(self.bound, self.reached):
            search = StepSearch(self.table, part.piece, self.options.tricks)
            left = self.options.max_states - self.states
            finding = search.best_first(self.bound, part.peak, left)
            self.states += finding.states
            if finding.order is not None:
                self._take(part, finding.order)
            self.bound = max(self.bound, min(finding.bound_bytes, part.peak))
            if not finding.finished:
                self._beam(part, search)
        self.reached = max(self.reached, part.peak)

    def _beam(self, part: _Part, search: StepSearch) -> None:
        """Bisect between what is proven and what is reached."""
        failed = self.bound - 1
        while self.options.beam_width and part.peak - failed > 1:
            limit = (failed + part.peak) // 2
            order = search.beam(limit, self.options.beam_width)
            if order is None:
                failed = limit
            else:
                self._take(part, order)

    def _take(self, part: _Part, order: tuple[int, ...]) -> None:
        part.order = order
        part.peak, _ = self.table.peak(part.piece.done, part.piece.live_bytes, order)
