"""A lower bound of the live bytes of any plan of a path of layers, with limited recomputation.

At the moment when the last layer of a cascade computes its rows [t, t + h), demand-driven execution
has computed exactly the rows that these require, and the rows that later calls read are live.  In a
plan that keeps some tensors and recomputes the others, the live rows of a kept tensor depend on the
next kept tensor alone, and so do the multiply-accumulates of the tensors recomputed between them.
So dynamic programming over the kept tensors covers all sets of recomputed tensors: backwards from
the last layer, it keeps the Pareto-optimal vectors of live bytes at several such moments and of
recomputed multiply-accumulates.
The arena of the recomputed tensors counts with its least size, in bands of one column, and their
multiply-accumulates without the columns that bands compute twice.

Tensors beside the path are left out, so the bound also holds for networks with branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from benchmarks.plan_layers import Layer, Reads

STRIPES = (1, 2, 4, 8, 16)
"""Stripe heights: largest number of rows of a call."""
MOMENTS = 6
"""Number of moments at which the live bytes are determined; more of them tighten the bound."""
DEPTHS = 2
"""The live bytes are bounded at every DEPTHS-th layer, counted backwards from the last one."""
SHARES = (64, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""Plans are distinguished by the share of the ceiling that their arena needs, rounded down."""
MOST_LABELS = 64
"""Number of labels of a tensor; beyond, neighbours are merged into a lower bound of both."""
Labels = npt.NDArray[np.float64]
"""Each row: live bytes at each moment, and recomputed multiply-accumulates."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """A call of layer `depth` or, if that is recomputed, of the chain that contains it.

    The layer `layer` has computed `first` rows and needs the call to compute its rows up to `end`.
    output_bytes: live bytes of its output.
    """

    layer: int
    depth: int
    first: int
    end: int
    output_bytes: int


@dataclass(frozen=True)
class Path:
    """Layers, each of which reads the previous one; the caller supplies the rows of the first one.

    rows[k], columns[k]: what layer k reads of layer k - 1; entry 0 is not used.
    most_macs: number of multiply-accumulates that a plan may recompute.
    ceiling_bytes: plans that need as much are of no interest.
    """

    layers: Sequence[Layer]
    rows: Sequence[Reads]
    columns: Sequence[Reads]
    most_macs: float
    ceiling_bytes: int
    _extra: dict[tuple[int, int, int], float] = field(
        default_factory=dict[tuple[int, int, int], float]
    )

    def least_bytes(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The bound of all divisions into cascades, with the division that attains it.

        At most `ceiling_bytes`, for the layers do not need less than that.
        """
        found: list[tuple[int, tuple[tuple[int, int], ...]]] = [(0, ())]
        for upper in range(1, len(self.layers) + 1):
            each = self.cascade_bounds(upper)
            found.append(
                min((max(found[k][0], b), (*found[k][1], (k, upper))) for k, b in each.items())
            )
        return found[-1]

    def cascade_bounds(self, upper: int) -> dict[int, int]:
        """Bounds of the cascades that end at `upper` (exclusive), by their first layer."""
        best = dict.fromkeys(range(upper), self.ceiling_bytes)
        for stripe in STRIPES:
            if stripe > 1 and stripe >= self.layers[upper - 1].rows:
                break
            for lower, size in self._kept_bounds(upper, stripe).items():
                best[lower] = min(best[lower], size)
        for lower in range(1, upper - 1):
            if all(layer.joins for layer in self.layers[lower:upper]):
                best[lower] = min(best[lower], self._band_bound(lower, upper))
        return best

    def _kept_bounds(self, upper: int, stripe: int) -> dict[int, int]:
        """Bounds over all sets of kept tensors: by the first layer of the cascade."""
        found = dict.fromkeys(range(upper), self.ceiling_bytes)
        moments = list(self._moments(upper, stripe))
        keys = dict.fromkeys((m.layer, m.depth) for m in moments)
        groups = [[m for m in moments if (m.layer, m.depth) == key] for key in keys]
        if stripe > 1:  # a group needs equal calls
            groups = [[m] for m in moments if m.depth < m.layer] + [
                group for group in groups if group[0].depth == group[0].layer
            ]
        before = 0
        for arena in (0, *(self.ceiling_bytes // share for share in SHARES)):
            most = dict.fromkeys(range(upper), 0)
            for group in groups:
                sizes = self._at_moments(group, stripe, arena, before)
                for lower in range(group[0].depth + 1):
                    most[lower] = max(most[lower], sizes.get(lower, self.ceiling_bytes))
            found = {lower: min(size, most[lower] + before) for lower, size in found.items()}
            before = arena
        return found

    def _moments(self, upper: int, stripe: int) -> Iterator[_Moment]:
        """Some calls of the last layer, and of the last one before that surely runs alone."""
        last = self.layers[upper - 1]
        step = last.rows if last.whole else stripe
        for first in _spread(range(0, last.rows, step)):
            end = min(first + step, last.rows)
            output = last.held(first if last.may_overwrite else end)
            yield _Moment(upper - 1, upper - 1, first, end, output)
            for depth in self._depths(upper - 1, first, end):
                yield _Moment(upper - 1, depth, first, end, last.held(first))
        kept = [k for k in range(upper - 1) if self._is_kept(k) and self.layers[k].rows > 1]
        if kept and self.layers[kept[-1] + 1].rows == 1:  # all of its rows are requested at once
            layer, rows = kept[-1], self.layers[kept[-1]].rows
            for first in _spread(range(0, rows, stripe)):
                end = min(first + stripe, rows)
                for depth in (layer, *self._depths(layer, first, end)):
                    yield _Moment(layer, depth, first, end, 0)

    def _depths(self, top: int, first: int, end: int) -> Iterator[int]:
        """Layers before `top` whose last required rows are computed just before its call.

        The call computes rows [first, end).  The last row of each of these layers requires a row of
        the layer before it that no earlier row requires.
        """
        made = self._made(top, end)
        for k in range(top, 0, -1):
            needed, layer = self.rows[k].needed, self.layers[k - 1]
            before = first if k == top else made[k] - 1
            if layer.whole or layer.accumulates or needed[made[k]] == needed[before]:
                return
            if (top - k) % DEPTHS == 0:
                yield k - 1

    def _is_kept(self, k: int) -> bool:
        """Whether no chain can recompute layer k: neither may be in it, or its reader."""
        layer = self.layers[k]
        return layer.accumulates or not (layer.joins and self.layers[k + 1].joins)

    def _at_moments(
        self, moments: Sequence[_Moment], stripe: int, arena: int, held: int
    ) -> dict[int, int]:
        """Least live bytes at the worst of some moments, by the first layer of the cascade.

        moments: calls at the same depth, for rows of the same layer.
        arena: largest arena of the recomputed tensors.
        held: bytes that are live in addition.
        """
        top, depth = moments[0].layer, moments[0].depth
        made = [self._made(top, m.end) for m in moments]
        start = tuple(m.first for m in moments)
        labels: list[dict[tuple[int, ...], list[Labels]]] = [{} for _ in range(top + 1)]
        labels[top][start] = [np.array([[*(m.output_bytes for m in moments), 0.0]])]
        most = np.append(np.full(len(moments), self.ceiling_bytes - held - 1.0), self.most_macs)
        found: dict[int, int] = {}

        def keep(lower: int, new: Labels) -> None:
            if len(new) and lower <= depth:
                least = int(new[:, :-1].max(axis=1).min())
                found[lower] = min(found.get(lower, least), least)

        for k in range(top, -1, -1):
            for begun, some in labels[k].items():
                mine = _merged(np.concatenate(some))
                if k == 0:
                    keep(0, mine)
                    break
                for j, spans, macs in self._segments(k, begun, stripe, arena):
                    source = self.layers[j]
                    outputs, ends = self._call(moments[0], stripe, made, (j, k), begun, spans)
                    for rows in ([source.rows] * len(moments), ends):
                        terms = zip(outputs, rows, spans, strict=True)
                        sizes = [size + source.held(n - dead) for size, n, (dead, _) in terms]
                        new = mine + np.array([*sizes, macs])
                        new = new[(new <= most).all(axis=1)]
                        if rows is not ends:
                            keep(j + 1, new)
                        elif len(new):
                            labels[j].setdefault(tuple(ends), []).append(new)
        return found

    def _call(
        self,
        moment: _Moment,
        stripe: int,
        made: Sequence[Sequence[int]],
        layers: tuple[int, int],
        begun: Sequence[int],
        spans: Sequence[tuple[int, int]],
    ) -> tuple[Sequence[int], Sequence[int]]:
        """Bytes of the output of the call at each moment, if k runs it, and rows of j before it.

        layers: (j, k), consecutive kept tensors; begun, spans: as in `_segments`.
        """
        j, k = layers
        ends = [rows[j] for rows in made]
        if j >= moment.depth:  # the last call of j has not begun
            pairs = zip(ends, spans, strict=True)
            ends = [b - (b - before - 1) % stripe - 1 for b, (_, before) in pairs]
            return [0] * len(ends), ends
        if not moment.depth <= k or moment.depth == moment.layer or self.layers[k].may_overwrite:
            return [0] * len(ends), ends
        pairs = zip(made, begun, strict=True)
        return [self.layers[k].held(rows[k]) - self.layers[k].held(a) for rows, a in pairs], ends

    def _made(self, top: int, end: int) -> list[int]:
        """Number of rows of each layer up to `top` that the first `end` rows of `top` need."""
        made = [0] * top + [end]
        for k in range(top, 0, -1):
            count = self.rows[k].needed[made[k]]
            made[k - 1] = self.layers[k - 1].rows if self.layers[k - 1].whole and count else count
        return made

    def _segments(
        self, k: int, begun: Sequence[int], stripe: int, arena: int
    ) -> Iterator[tuple[int, Sequence[tuple[int, int]], float]]:
        """Ways to go on from the kept tensor k to the kept tensor before it.

        begun: number of rows of k, at each moment, that were computed before its call.
        Yields (that tensor, (how many of its first rows are dead, and were required before the
        call) at each moment, recomputed multiply-accumulates of the tensors between them).
        """
        spans, macs = [(n, n) for n in begun], 0.0
        sizes: list[int] = []
        for j in range(k - 1, -1, -1):
            table = self.rows[j + 1]
            spans = [(table.done[n], table.needed[m]) for n, m in spans]
            yield j, spans, macs
            layer = self.layers[j]
            if layer.rows < 2 or self._is_kept(j):
                return
            macs += self._recomputed(j, k, stripe)
            sizes.append(self._arena_bytes(j, k, stripe))
            if macs > self.most_macs or max(map(sum, pairwise((0, *sizes)))) > arena:
                return

    def _window(self, j: int, k: int, rows: bool, lower: int, upper: int) -> tuple[int, int]:
        """Rows, or columns, of layer j that [lower, upper) of layer k require."""
        for p in range(k, j, -1):
            table = self.rows[p] if rows else self.columns[p]
            lower, upper = table.done[lower], table.needed[upper]
        return lower, upper

    def _arena_bytes(self, j: int, k: int, stripe: int) -> int:
        """Size of layer j in a chain that computes rows of layer k, in bands of one column."""
        last, layer = self.layers[k], self.layers[j]
        middle = last.columns // 2
        left, right = self._window(j, k, False, middle, middle + 1)
        spans = (self._window(j, k, True, n, min(n + stripe, last.rows)) for n in range(last.rows))
        rows = max(upper - lower for lower, upper in spans)
        return rows * (right - left) * layer.pixel_bytes

    def _recomputed(self, j: int, k: int, stripe: int) -> float:
        """Multiply-accumulates of layer j in a chain that computes layer k, minus necessary ones.

        Those of the best division of the rows of k into calls of at most `stripe` rows.
        """
        key = j, k, stripe
        if key not in self._extra:
            count = self.layers[k].rows
            windows = [self._window(j, k, True, n, n) for n in range(count + 1)]
            overlap = [max(0, upper - lower) for lower, upper in windows]
            least = [0]
            for n in range(1, count + 1):
                least.append(min(least[max(0, n - stripe) : n]) + overlap[n] * (n < count))
            lower, upper = self._window(j, k, True, 0, count)
            rows = upper - lower + least[count]
            self._extra[key] = self.layers[j].macs * (rows / self.layers[j].rows - 1.0)
        return self._extra[key]

    def _band_bound(self, lower: int, upper: int) -> int:
        """Bound of the cascade [lower, upper) in bands of columns: input and output are whole."""
        source, last = self.layers[lower - 1], self.layers[upper - 1]
        held = source.held(source.rows) + last.held(last.rows)
        if held >= self.ceiling_bytes:
            return self.ceiling_bytes
        best = self.ceiling_bytes
        for width in range(1, last.columns + 1):
            begins = range(0, last.columns, width)
            macs, columns = 0.0, dict[int, list[int]]()
            for p in range(lower, upper):
                ends = [(b, min(b + width, last.columns)) for b in begins]
                spans = [self._window(p, upper - 1, False, *end) for end in ends]
                columns[p] = [b - a for a, b in spans]
                macs += self.layers[p].macs * (sum(columns[p]) / self.layers[p].columns - 1.0)
            if macs <= self.most_macs:
                chosen = {0, len(begins) // 2, len(begins) - 1}
                inner = (
                    self._inner_rows(
                        lower,
                        upper,
                        {p: c[k] * self.layers[p].pixel_bytes for p, c in columns.items()},
                    )
                    for k in chosen
                )
                best = min(best, held + max(inner))
        return best

    def _inner_rows(self, lower: int, upper: int, row_bytes: dict[int, int]) -> int:
        """Live bytes of the inner tensors of a band, at the worst of some moments."""
        sizes: list[int] = []
        for moment in self._moments(upper, 1):
            if moment.layer < upper - 1:
                continue
            made = self._made(upper - 1, moment.end)
            progress = [*made[:-1], moment.first]
            live = (
                (made[p] - self.rows[p + 1].done[progress[p + 1]]) * row_bytes[p]
                for p in range(lower, upper - 1)
            )
            sizes.append(sum(live))
        return max(sizes)


def _spread(every: range) -> list[int]:
    """Some numbers of a range, evenly spread, the first and the last one included."""
    return sorted({every[k * (len(every) - 1) // MOMENTS] for k in range(MOMENTS + 1)})


def _merged(labels: Labels) -> Labels:
    """The Pareto-optimal ones of some labels; if these are too many, lower bounds of neighbours."""
    labels = labels[np.lexsort(labels.T)]
    keep: list[int] = []
    for k in range(len(labels)):
        if not keep or not (labels[keep] <= labels[k]).all(axis=1).any():
            keep.append(k)
    labels = labels[keep]
    while len(labels) > MOST_LABELS:
        even = labels[: len(labels) // 2 * 2]
        pairs = np.minimum(even[::2], even[1::2])
        labels = np.concatenate([pairs, labels[len(even) :]])
    return labels
