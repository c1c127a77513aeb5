"""Search for the execution order of least peak memory, with a proven optimality gap.

    file order -> pieces -> heuristic orders -> best-first search -> beam search

The file order is the execution order in which the problem lists its steps.  A piece is a set of
steps that are consecutive in every execution order.  The steps are divided into pieces after each
step that has the same position in every order, and each piece is ordered separately.

The peak of the problem is the maximum of the peaks of its pieces.  So the search begins with the
piece whose best heuristic order has the highest peak.  It skips a piece for which a better order
would not lower the peak of the problem.  In that case, the peak of the piece's best heuristic order
does not exceed the peak of an earlier piece, or does not exceed the proven lower bound.

Beam search runs only if best-first search does not finish.  The budget of a search is a number of
states, not a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.scheduling.order.step_orders import Heuristic, heuristic_order
from penstock.scheduling.order.step_search import OrderTricks, Piece, StepSearch
from penstock.scheduling.order.step_table import StepTable, bits, step_table
from penstock.scheduling.order.steps import OrderProblem

BEAM_WIDTH = 16
"""Number of states that a beam keeps for each number of completed steps."""


@dataclass(frozen=True, slots=True)
class OrderOptions:
    """Budgets of the search, and the reductions of the search space that it uses.

    max_states: maximum number of states of all best-first searches together.  There is one search
        for each piece, a set of steps that are consecutive in every execution order.
    beam_width: number of states that a beam search keeps for each number of completed steps.  A
        beam search follows an unfinished best-first search; 0 disables it.
    tricks: which reductions to use.
    """

    max_states: int = 20_000
    beam_width: int = BEAM_WIDTH
    tricks: OrderTricks = field(default_factory=OrderTricks)


@dataclass(frozen=True, slots=True)
class Order:
    """An execution order, with its peak memory and a proven lower bound of the peak.

    order: indices of the problem's steps.
    peak_bytes: live bytes at the peak.
    bound_bytes: proven lower bound of the peak of any order; 0 if none has been computed.
    file_peak_bytes: peak of the order in which the problem lists the steps.
    states: number of states searched, a measure of work.
    """

    order: tuple[int, ...]
    peak_bytes: int
    bound_bytes: int
    file_peak_bytes: int
    states: int

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no order has a lower peak."""
        return self.peak_bytes == self.bound_bytes

    @property
    def gap(self) -> float:
        """Optimality gap: (peak - bound) / max(bound, 1) for the proven lower bound of the peak.

        0.0 if the peak is proven optimal.
        """
        return (self.peak_bytes - self.bound_bytes) / max(self.bound_bytes, 1)


def find_order(problem: OrderProblem, options: OrderOptions | None = None) -> Order:
    """Return the order of least peak memory that the search finds.

    The order in which the problem lists the steps is preferred to others with the same peak.
    options: None stands for the default options.
    """
    options = options or OrderOptions()
    table = step_table(problem)
    orders = {heuristic: heuristic_order(table, heuristic) for heuristic in Heuristic}
    file_peak, _ = table.peak(0, table.start_bytes, orders[Heuristic.FILE])
    ranks = [{step: rank for rank, step in enumerate(order)} for order in orders.values()]
    found = [_PieceOrder.of(table, piece, ranks) for piece in pieces(table, options.tricks.split)]
    must = max((row.must_bytes for row in table.rows), default=0)
    run = _Run(table, options, bound=max(must, table.start_bytes))
    for one in sorted(found, key=lambda one: -one.peak):
        run.improve(one)
    order = tuple(step for one in found for step in one.order_within(run.reached))
    peak, _ = table.peak(0, table.start_bytes, order)
    return Order(order, peak, run.bound, file_peak, run.states)


def order_by(problem: OrderProblem, heuristic: Heuristic) -> Order:
    """Return the order that a heuristic determines; no lower bound of the peak is computed.

    So the `bound_bytes` of the result is 0.
    """
    table = step_table(problem)
    order = heuristic_order(table, heuristic)
    peak, _ = table.peak(0, table.start_bytes, order)
    file_peak, _ = table.peak(0, table.start_bytes, heuristic_order(table, Heuristic.FILE))
    return Order(order, peak, 0, file_peak, 0)


def pieces(table: StepTable, split: bool = True) -> list[Piece]:
    """Divide the steps of a problem into pieces, each of which can be ordered separately.

    Returns the pieces in execution order.  A piece is a set of steps that are consecutive in every
    order.  Each piece but the last ends with a step that has the same position in every order: all
    other steps are its ancestors or descendants.
    split: if False, all steps are one piece (`OrderTricks.split`).
    """
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
class _PieceOrder:
    """A piece (steps that are consecutive in every execution order) with two orders of its steps.

    file_order, file_peak: the order in which the problem lists the steps, and its peak in bytes.
    order, peak: the best order found so far, and its peak in bytes.
    """

    piece: Piece
    file_order: tuple[int, ...]
    file_peak: int
    order: tuple[int, ...]
    peak: int

    @staticmethod
    def of(table: StepTable, piece: Piece, ranks: list[dict[int, int]]) -> _PieceOrder:
        """Return a piece with its steps in the problem's order and in the best known order.

        A piece is a set of steps that are consecutive in every execution order.
        ranks: for each known order of all steps, a map from step to position; the problem's order
            comes first.
        """
        steps = tuple(bits(piece.goal & ~piece.done))
        inside = [tuple(sorted(steps, key=rank.__getitem__)) for rank in ranks]
        peaks = [table.peak(piece.done, piece.live_bytes, order)[0] for order in inside]
        best = peaks.index(min(peaks))
        return _PieceOrder(piece, inside[0], peaks[0], inside[best], peaks[best])

    def order_within(self, peak: int) -> tuple[int, ...]:
        """Return the file order if its peak is at most `peak` bytes, else the best order found.

        The file order is the order in which the problem lists the steps.
        peak: a peak that other pieces reach anyway.  Up to this peak, a better order of this piece
            saves no memory, so the file order is preferred.
        """
        return self.file_order if self.file_peak <= peak else self.order


@dataclass(slots=True)
class _Run:
    """The state of a search that improves the order of one piece after the other.

    A piece is a set of steps that are consecutive in every execution order.
    bound: proven lower bound, in bytes, of the peak of the whole problem.
    reached: largest peak, in bytes, of the pieces that `improve` has processed.
    states: number of states searched so far.
    """

    table: StepTable
    options: OrderOptions
    bound: int
    reached: int = 0
    states: int = 0

    def improve(self, piece_order: _PieceOrder) -> None:
        """Search for a better order of a piece if that may lower the overall peak.

        A piece is a set of steps that are consecutive in every execution order.  The search is
        skipped if the best known order of the piece already has a peak of at most `bound`, a lower
        bound of the overall peak, or at most `reached`, the largest peak of the pieces so far.
        piece_order: the piece and its best known order; updated.
        """
        if piece_order.peak > max(self.bound, self.reached):
            search = StepSearch(self.table, piece_order.piece, self.options.tricks)
            left = self.options.max_states - self.states
            finding = search.best_first(self.bound, piece_order.peak, left)
            self.states += finding.states
            if finding.order is not None:
                self._take(piece_order, finding.order)
            self.bound = max(self.bound, min(finding.bound_bytes, piece_order.peak))
            if not finding.finished:
                self._beam(piece_order, search)
        self.reached = max(self.reached, piece_order.peak)

    def _beam(self, piece_order: _PieceOrder, search: StepSearch) -> None:
        """Lower the peak of a piece by beam searches, with limits of the peak chosen by bisection.

        A piece is a set of steps that are consecutive in every execution order.
        piece_order: the piece and its best known order; updated.
        search: its method `beam` looks for an order of the piece whose peak is at most a limit.
        """
        # The beam search is incomplete: bisection assumes that no order meets a limit at which the
        # search has failed.
        failed = self.bound - 1
        while self.options.beam_width and piece_order.peak - failed > 1:
            limit = (failed + piece_order.peak) // 2
            order = search.beam(limit, self.options.beam_width)
            if order is None:
                failed = limit
            else:
                self._take(piece_order, order)

    def _take(self, piece_order: _PieceOrder, order: tuple[int, ...]) -> None:
        piece_order.order = order
        piece_order.peak, _ = self.table.peak(
            piece_order.piece.done, piece_order.piece.live_bytes, order
        )
