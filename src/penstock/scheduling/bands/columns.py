"""The input columns that parts read to compute some columns of their outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.ir.columns import ColumnReads, add_reads, column_reads, with_columns
from penstock.ir.graph import Node
from penstock.ir.op import Croppable, Op, Site
from penstock.ir.region import Interval
from penstock.scheduling.model.part import Part

_Intervals = dict[Interval, tuple[Interval, ...] | None]
_Shared = tuple[Op, Site, tuple[bool, ...]]


@dataclass(frozen=True, slots=True)
class PartColumnReads:
    """Derives the columns that parts read; results are memoised.

    Graphs that have parts in common can share the results.

    _known: for the identity of each part, the part itself, the tensors that it reads, and the
        columns of each.  Parts of different graphs may have the same name.
    _shared: those columns; parts that differ only in names and elements of constants share them.
    """

    _known: dict[int, tuple[Part, tuple[str, ...], _Intervals]] = field(
        default_factory=dict[int, tuple[Part, tuple[str, ...], _Intervals]]
    )
    _shared: dict[_Shared, _Intervals] = field(default_factory=dict[_Shared, _Intervals])

    def add(self, part: Part, wanted: dict[str, Interval]) -> bool:
        """Add to `wanted` the input columns that a part reads to compute its wanted output columns.

        wanted: the columns of each tensor that a band needs, by tensor name.  For example, a 3x3
            convolution with padding, whose output columns [4, 8) are wanted, adds the columns
            [3, 9) of its input.

        Returns False if no columns of the part's output are wanted, or if the part cannot compute
        only the wanted ones.
        """
        interval = wanted.get(part.name)
        if interval is None:
            return False
        reads = self.columns(part, interval)
        add_reads(reads or (), wanted)
        return reads is not None

    def columns(self, part: Part, interval: Interval) -> ColumnReads | None:
        """Return which columns of tensors a part reads to compute some output columns.

        The result consists of pairs (tensor name, columns).
        interval: the output columns.

        Returns None if the part cannot compute only these columns.
        """
        _, names, shared = self._known.get(id(part)) or self._entered(part)
        if interval not in shared:
            reads = _reads(part.nodes[0], interval)
            shared[interval] = None if reads is None else tuple(columns for _, columns in reads)
        found = shared[interval]
        return None if found is None else tuple(zip(names, found, strict=True))

    def _entered(self, part: Part) -> tuple[Part, tuple[str, ...], _Intervals]:
        node = part.nodes[0]
        variable = tuple(value.data is None for value in node.inputs)
        shared = self._shared.setdefault((node.op, node.site.bare, variable), {})
        found = part, tuple(value.name for value in node.variable_inputs), shared
        self._known[id(part)] = found
        return found


def _reads(node: Node, columns: Interval) -> ColumnReads | None:
    """Return which columns of tensors a node reads to compute the output columns `columns`.

    None if it cannot compute only these.
    """
    out = with_columns(node.output.type, columns)
    if not isinstance(node.op, Croppable) or node.op.cropped(node.site, out) is None:
        return None
    return column_reads(node, columns)


ColumnNeeds = Callable[[str, Interval], Sequence[tuple[str, Interval]] | None]
"""Returns the pairs (tensor, columns) that are read to compute some columns of a tensor; None if it
is impossible to compute only these columns."""


@dataclass(frozen=True, slots=True)
class Span:
    """Columns of a tensor in a band: the band holds [lower, upper) and computes [begin, upper)."""

    lower: int
    begin: int
    upper: int

    @property
    def width(self) -> int:
        """Number of columns that the band holds."""
        return self.upper - self.lower

    @property
    def kept(self) -> int:
        """Number of columns that the band holds and does not compute."""
        return self.begin - self.lower

    @property
    def computed(self) -> int:
        """Number of columns that the band computes."""
        return self.upper - self.begin


Spans = Mapping[str, Span]
"""The columns of each tensor in one band, by name."""


def kept_spans(
    tensors: Sequence[str], columns: int, width: int, numbers: Sequence[int], needs: ColumnNeeds
) -> tuple[Spans, ...] | None:
    """Return the columns of each tensor that bands hold and compute.

    The result has one map for each entry of `numbers`: from the name of a tensor to its `Span` in
    that band.  A map contains the tensors that the band computes or reads, or of which it keeps
    columns for a later band.

    tensors: the tensors that a band computes, in execution order; the last one is divided into
        bands.
    columns: number of columns of the last tensor.
    width: number of columns of a band; the last band may have fewer.
    numbers: indices of the bands to analyse, in ascending order.  Some columns of a band
        are held only for the next band; they are included if `numbers` contains the next band, too.
    needs: returns which columns are read to compute columns of a tensor.

    Returns None if a tensor cannot be computed in bands of this width, or if no band needs the
    columns between two bands of a tensor, so that the two are not adjacent.
    """
    found: list[dict[str, Span]] = []
    known: dict[int, dict[str, int] | None] = {0: {}}  # ends by number of bands
    for number in numbers:
        for count in (number, number + 1):
            if count not in known:
                known[count] = _ends(tensors, min(count * width, columns), needs)
        before, ends = known[number], known[number + 1]
        spans = None if before is None or ends is None else _spans(tensors, before, ends, needs)
        if spans is None:
            return None
        found.append(spans)
    for k in range(len(found) - 2, -1, -1):
        if numbers[k + 1] == numbers[k] + 1:
            _keep_for(found[k], found[k + 1])
    if numbers[0] == 0 and any(span.kept for span in found[0].values()):
        return None
    return tuple(found)


def _ends(tensors: Sequence[str], columns: int, needs: ColumnNeeds) -> dict[str, int] | None:
    """Return how many leading columns of each tensor must be computed, by tensor name.

    Returns None if a tensor cannot be computed by columns, or is not needed for the last tensor.
    """
    ends = {tensors[-1]: columns}
    for name in reversed(tensors):
        reads = needs(name, (0, ends[name])) if name in ends else None
        if reads is None:
            return None
        for value, (_, upper) in reads:
            ends[value] = max(ends.get(value, 0), upper)
    return ends


def _spans(
    tensors: Sequence[str], before: Mapping[str, int], ends: Mapping[str, int], needs: ColumnNeeds
) -> dict[str, Span] | None:
    """Return the columns that one band holds and computes, for each tensor that it uses, by name.

    before, ends: how many leading columns of each tensor have been computed when the band begins,
        and when it ends; `before` is empty for the first band.

    Returns None if a tensor cannot be computed by columns, or if columns that no band needs would
    lie between the columns computed before and those that this band needs.
    """
    found: dict[str, Span] = {}
    lowers = {tensors[-1]: before.get(tensors[-1], 0)}
    for name in reversed(tensors):
        begin, upper = before.get(name, lowers.get(name, 0)), ends[name]
        if name not in lowers and upper == begin:
            continue
        lower = lowers.get(name, begin)
        if lower > begin:
            return None
        found[name] = Span(lower, begin, upper)
        if upper == begin:
            continue
        reads = needs(name, (begin, upper))
        if reads is None:
            return None
        for value, (first, _) in reads:
            lowers[value] = min(lowers.get(value, first), first)
    return found


def _keep_for(spans: dict[str, Span], after: Spans) -> None:
    """Extend the spans of a band by the columns that the band must keep for the next band.

    These are the columns that the next band holds but does not compute.  For example, let the band
    hold and compute columns [5, 8) of a tensor, and let the next one hold [4, 12) and compute
    [8, 12).  Then the band must hold [4, 8): its span (lower, begin, upper) = (5, 5, 8) becomes
    (4, 5, 8).  If the band has no span for the tensor, one with only the kept columns is added.
    spans: the spans of the band, by tensor name; modified.
    """
    for name, next_span in after.items():
        if not next_span.kept:
            continue
        span = spans.get(name, Span(next_span.begin, next_span.begin, next_span.begin))
        lower = min(span.lower, next_span.lower)
        spans[name] = Span(lower, max(span.begin, lower), span.upper)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a band stores the columns of a tensor that it holds, in the memory of the tensor.

    Both fields are indices of columns in this memory.

    position: where the band stores the first column that it holds.
    source: where this column is before the band moves the kept columns; None if the band moves no
        columns.  Example: the previous band has stored columns [0, 6) at position 0, and columns 4
        and 5 of them are kept for this band.  Location(0, 4) moves these to positions 0 and 1.
    """

    position: int
    source: int | None = None

    def moves(self, span: Span) -> tuple[Interval, ...]:
        """Return the columns that each move copies, in the order of the moves.

        After the moves, the kept columns begin at position 0.  Each move copies an interval (first,
        end) of adjacent columns.  These are indices in the tensor, not positions in memory.

        Example: the kept columns are 4 to 8, and `source` is 2.  So they are at positions 2 to 6
        and must get to positions 0 to 4.  A move copies at most `source` columns, here 2, so that
        the memory it reads does not overlap the memory it writes.  The result is ((4, 6), (6, 8),
        (8, 9)): the first move copies columns 4 and 5 from positions 2 and 3 to 0 and 1.

        span: the columns that the band holds; [span.lower, span.begin) are the kept ones.

        Returns () if `source` is None, that is, if the band moves no columns.
        """
        if self.source is None:
            return ()
        # Later bands store their columns from position 0 on (`locations`).
        firsts = range(span.lower, span.begin, self.source)
        return tuple((first, min(first + self.source, span.begin)) for first in firsts)


def locations(spans: Sequence[Span]) -> tuple[Location, ...]:
    """Return where consecutive bands store the columns of one tensor, one location per span.

    spans: the columns of the tensor in each band that holds columns of this tensor.

    A position is the index of a column in the memory of the tensor.  `_first_position` determines
    where the columns of the first band begin.  Those of a later band begin at position 0; the band
    first moves the kept columns there if they are elsewhere.  Only a band that computes no columns
    of the tensor leaves the kept ones where they are.
    """
    found = [Location(_first_position(spans))]
    for before, span in pairwise(spans):
        source = found[-1].position + span.lower - before.lower
        if not span.computed or source == 0:
            found.append(Location(source))
        else:
            found.append(Location(0, source if span.kept else None))
    return tuple(found)


def _first_position(spans: Sequence[Span]) -> int:
    """Return the position (`Location.position`) at which the first band stores its columns.

    It is chosen so that the second and the third band move their kept columns by the same distance,
    because bands with equal moves can be iterations of one loop.  The result is 0 if the tensor
    would need more memory for this.
    """
    if len(spans) < 2:
        return 0
    distance = spans[2].lower - spans[1].lower if len(spans) > 2 else spans[1].kept
    position = max(0, distance - (spans[1].lower - spans[0].lower))
    widest = max(span.width for span in spans)
    return position if position + spans[0].width <= widest else 0
