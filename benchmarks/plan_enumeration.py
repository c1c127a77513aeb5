"""The least live bytes of all plans of a small network with branches, by exhaustive enumeration.

Each interval of the order is a cascade; each set of its tensors may be recomputed, in chains; each
stripe height and both orders of inputs are simulated call by call.  A chain's arena counts with its
size in bands of one column, but the columns that such bands compute twice are free.  So the result
is at most the least live bytes of the plan space, and it is exact for plans without chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from benchmarks.plan_layers import Layer, Reads

STRIPES = (1, 2, 4)
"""Stripe heights in bands and with chains: largest number of rows of a call."""
ROW_STRIPES = (*STRIPES, 8, 16)
"""Stripe heights of cascades without chains."""


@dataclass(frozen=True)
class Enumeration:
    """All plans of a network whose recomputation and memory are limited.

    rows, columns: what layer k reads of layer s, by (k, s).
    outputs: the layers whose results are read after the run.
    most_macs: number of multiply-accumulates that a cascade may recompute.
    ceiling_bytes: plans that need as much are of no interest.
    """

    layers: Sequence[Layer]
    rows: Mapping[tuple[int, int], Reads]
    columns: Mapping[tuple[int, int], Reads]
    outputs: frozenset[int]
    most_macs: float
    ceiling_bytes: int

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """The layers that read each layer."""
        every = range(len(self.layers))
        return tuple(tuple(k for k in every if s in self.layers[k].inputs) for s in every)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Number of layers on the longest path from the input to each layer."""
        found: list[int] = []
        for layer in self.layers:
            found.append(max((found[s] + 1 for s in layer.inputs), default=0))
        return tuple(found)

    def least_bytes(self) -> tuple[int, int]:
        """The least live bytes, at most `ceiling_bytes`, and the number of simulated plans."""
        best, count = [0], 0
        for upper in range(1, len(self.layers) + 1):
            least = self.ceiling_bytes
            for lower in range(upper):
                if max(best[lower], self.resident_bytes(lower)) < least:
                    found, plans = self._cascade(lower, upper, least)
                    least, count = min(least, max(best[lower], found)), count + plans
            best.append(least)
        return best[-1], count

    def resident_bytes(self, lower: int) -> int:
        """Bytes of the tensors that are whole when the cascade begins."""
        return sum(
            layer.held(layer.rows)
            for s, layer in enumerate(self.layers[:lower])
            if s in self.outputs or max(self.readers[s], default=-1) >= lower
        )

    def _cascade(self, lower: int, upper: int, ceiling: int) -> tuple[int, int]:
        """Least live bytes of the cascade [lower, upper), and the number of simulated plans."""
        whole = [k for k in range(lower, upper) if self.is_read_later(k, upper)]
        held = self.resident_bytes(lower) + sum(
            self.layers[k].held(self.layers[k].rows) for k in whole
        )
        best, count = ceiling, 0
        if upper - lower > 1 and held < best and whole == [upper - 1]:
            for row_bytes in self._band_rows(lower, upper):
                for stripe in STRIPES:
                    run = _Run(self, lower, upper, range(upper), stripe, False, best, row_bytes)
                    run.live = run.peak = held
                    best, count = min(best, run.peak_bytes()), count + 1
        for ends in self._sets(lower, upper):
            chains = any(end != k for k, end in enumerate(ends))
            for stripe in STRIPES if chains else ROW_STRIPES:
                for nearest in (False, True):
                    run = _Run(self, lower, upper, ends, stripe, nearest, best)
                    best, count = min(best, run.peak_bytes()), count + 1
        return best, count

    def _band_rows(self, lower: int, upper: int) -> Iterator[dict[int, int]]:
        """Row sizes of the inner tensors in the widest band, for each width within the limit.

        The input and the output of the cascade, which are whole, have size 0 here.
        """
        columns, last = self.layers[upper - 1].columns, upper - 1
        if not all(layer.joins for layer in self.layers[lower:upper]):
            return
        for width in range(1, columns + 1):
            total = dict.fromkeys(range(lower, upper), 0)
            bands: list[dict[int, int]] = []
            for begin in range(0, columns, width):
                spans = {last: (begin, min(begin + width, columns))}
                for p in range(last - 1, lower - 1, -1):
                    tables = [(self.columns[q, p], spans[q]) for q in self.readers[p]]
                    spans[p] = (
                        min(t.done[a] for t, (a, _) in tables),
                        max(t.needed[b] for t, (_, b) in tables),
                    )
                bands.append({p: b - a for p, (a, b) in spans.items()})
                total = {p: count + bands[-1][p] for p, count in total.items()}
            extra = (
                self.layers[p].macs * (count / self.layers[p].columns - 1.0)
                for p, count in total.items()
            )
            if sum(extra) <= self.most_macs:
                widest = max(bands, key=lambda band: sum(band.values()))
                inner = {p: n * self.layers[p].pixel_bytes for p, n in widest.items() if p < last}
                yield dict.fromkeys(range(upper), 0) | inner

    def is_read_later(self, k: int, upper: int) -> bool:
        """Whether the output of layer k is read at or after `upper`."""
        return k in self.outputs or max(self.readers[k], default=upper) >= upper

    def _sets(self, lower: int, upper: int) -> Iterator[tuple[int, ...]]:
        """The last layer of the chain of each layer (itself in no chain), for every set."""
        possible = [
            k
            for k in range(lower, upper)
            if not self.is_read_later(k, upper)
            and self.layers[k].rows > 1
            and all(self.layers[q].joins for q in (k, *self.readers[k]))
        ]
        for size in range(len(possible) + 1):
            for chosen in combinations(possible, size):
                ends = list(range(upper))
                for k in reversed(chosen):
                    lasts = {ends[q] for q in self.readers[k]}
                    if len(lasts) > 1:
                        break
                    (ends[k],) = lasts
                else:
                    yield tuple(ends)


class _Run:
    """The simulation of one cascade, call by call; chains are single calls."""

    def __init__(
        self,
        plans: Enumeration,
        lower: int,
        upper: int,
        ends: Sequence[int],
        stripe: int,
        nearest: bool,
        ceiling: int,
        row_bytes: Mapping[int, int] | None = None,
    ) -> None:
        self.sizes = row_bytes or {s: plans.layers[s].row_bytes for s in range(upper)}
        self.plans, self.lower, self.upper, self.stripe = plans, lower, upper, stripe
        self.layers, self.ceiling = plans.layers, ceiling
        self.kept = [k for k in range(lower, upper) if ends[k] == k]
        self.members = {k: [p for p in range(lower, k) if ends[p] == k] for k in self.kept}
        self.windows = {k: self._chain_windows(k) for k in self.kept}
        self.reads = {k: self._outer_reads(k) for k in self.kept}
        sign = 1 if nearest else -1
        self.asks = {
            k: sorted(self.reads[k], key=lambda s: sign * plans.depths[s]) for k in self.kept
        }
        self.made = {s: self.layers[s].rows if s < lower else 0 for s in range(upper)}
        arena = max((self._arena_bytes(k) for k in self.kept if self.members[k]), default=0)
        self.dead = dict.fromkeys(range(upper), 0)
        self.live = plans.resident_bytes(lower) + arena
        self.peak, self.macs = self.live, 0.0

    def peak_bytes(self) -> int:
        """Live bytes at the peak; the ceiling if they reach it or the plan recomputes too much."""
        for k in self.kept:
            if self.plans.is_read_later(k, self.upper) and not self._produce(
                k, self.layers[k].rows
            ):
                return self.ceiling
        return self.peak

    def _chain_windows(self, last: int) -> dict[int, Reads]:
        """For each layer of a chain, its rows that prefixes of the rows of the last one take."""
        count = self.layers[last].rows
        found = {last: Reads(tuple(range(count + 1)), tuple(range(count + 1)))}
        for p in reversed(self.members[last]):
            found[p] = self._hull(p, [q for q in self.plans.readers[p] if q in found], found)
        return found

    def _hull(self, s: int, readers: Sequence[int], windows: Mapping[int, Reads]) -> Reads:
        """The rows of layer s that the given layers of a chain read."""
        tables = [(self.plans.rows[q, s], windows[q]) for q in readers]
        needed = zip(*([t.needed[n] for n in w.needed] for t, w in tables), strict=True)
        done = zip(*([t.done[n] for n in w.done] for t, w in tables), strict=True)
        return Reads(tuple(map(max, needed)), tuple(map(min, done)))

    def _outer_reads(self, last: int) -> dict[int, Reads]:
        """What a layer, or the chain that ends with it, reads of other layers."""
        windows = self.windows[last]
        outer = {s for q in windows for s in self.layers[q].inputs if s not in windows}
        return {
            s: self._hull(s, [q for q in self.plans.readers[s] if q in windows], windows)
            for s in outer
        }

    def _arena_bytes(self, last: int) -> int:
        """Size of a chain's arena in bands of one column."""
        middle = self.layers[last].columns // 2
        spans = {last: (middle, middle + 1)}
        every = [*self.members[last], last]
        sizes = dict.fromkeys(every, 0)
        for p in reversed(self.members[last]):
            readers = [q for q in self.plans.readers[p] if q in spans]
            tables = [(self.plans.columns[q, p], spans[q]) for q in readers]
            spans[p] = (
                min(t.done[a] for t, (a, _) in tables),
                max(t.needed[b] for t, (_, b) in tables),
            )
            window, count = self.windows[last][p], self.layers[last].rows
            rows = max(
                window.needed[min(n + self.stripe, count)] - window.done[n] for n in range(count)
            )
            size = rows * (spans[p][1] - spans[p][0]) * self.layers[p].pixel_bytes
            for q in every[every.index(p) : every.index(max(readers)) + 1]:
                sizes[q] += size
        return max(sizes.values())

    def _produce(self, k: int, target: int) -> bool:
        """Compute rows of a layer up to a target; False if a limit is exceeded."""
        layer = self.layers[k]
        while self.made[k] < target:
            first = self.made[k]
            end = layer.rows if layer.whole else min(first + self.stripe, target)
            for s in self.asks[k]:
                if s >= self.lower and not self._produce(s, self.reads[k][s].needed[end]):
                    return False
            if not self._call(k, first, end):
                return False
        return True

    def _call(self, k: int, first: int, end: int) -> bool:
        layer = self.layers[k]
        self.made[k] = end
        for p in self.members[k]:
            window = self.windows[k][p]
            self.macs += (
                self.layers[p].macs
                * (window.needed[end] - window.done[first])
                / self.layers[p].rows
            )
        slots = 1 if layer.accumulates else layer.rows
        size = (min(end, slots) - min(first, slots)) * self.sizes[k]
        gone = {s: self._dead(s) for s in (k, *self.reads[k])}
        joined = layer.may_overwrite and any(
            gone[s] >= end and self.dead[s] <= first for s in self.reads[k]
        )
        self.peak = max(self.peak, self.live + (0 if joined else size))
        self.live += size
        for s, dead in gone.items():
            source = self.layers[s]
            shared = source.rows - 1 if source.accumulates else 0
            self.live -= (max(dead, shared) - max(self.dead[s], shared)) * self.sizes[s]
            self.dead[s] = dead
        return self.peak < self.ceiling and self.macs - self._necessary <= self.plans.most_macs

    @cached_property
    def _necessary(self) -> int:
        return sum(self.layers[p].macs for some in self.members.values() for p in some)

    def _dead(self, s: int) -> int:
        """How many of the first rows of a layer are computed and not read again."""
        if self.plans.is_read_later(s, self.upper):
            return 0
        recurrent = self.layers[s].part.kernel.recurrent and self.made[s] < self.layers[s].rows
        found = max(0, self.made[s] - recurrent)
        for k in self.kept:
            if s in self.reads[k]:
                found = min(found, self.reads[k][s].done[self.made[k]])
        return found
