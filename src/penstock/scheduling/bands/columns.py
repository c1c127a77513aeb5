"""Which columns of images the parts of a graph compute, read and keep.

A band is an interval of columns of a tensor.  Neighbouring bands overlap in what they need of other
tensors (the halo): either both compute it, or each band keeps it for the next one (`kept_spans`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from penstock.frozen import frozen
from penstock.ir.graph import Node, Value
from penstock.ir.op import Croppable, Op, Site
from penstock.ir.tensor import COLUMNS, IMAGE_RANK, MOST_ROWS, ROWS, Interval, Region, TensorType
from penstock.scheduling.model.part import Part

# The columns [lower, upper) that are read, and of which tensor: pairs (tensor, columns).
ColumnReads = tuple[tuple[str, Interval], ...]


def with_columns(type: TensorType, columns: Interval) -> Region:
    """Return the region of an image that contains all rows and channels of some columns."""
    return Region.whole(type.shape).replace(COLUMNS, columns)


def column_reads(node: Node, columns: Interval) -> ColumnReads | None:
    """Return the columns of each tensor that a node reads to compute some columns of its output.

    None if a tensor is no image, if nothing of it or not its first row is needed (a cropped
    operator begins where its needs begin), or if a constant operand has columns.
    """
    found: list[tuple[str, Interval]] = []
    out = with_columns(node.output.type, columns)
    for value, need in node.reads(out):
        if value.data is not None:
            if need != Region.whole(value.shape):
                return None
        elif value.rank != IMAGE_RANK or need.empty or need.lower[ROWS]:
            return None
        else:
            found.append((value.name, need.intervals[COLUMNS]))
    return tuple(found)


def add_reads(reads: Iterable[tuple[str, Interval]], wanted: dict[str, Interval]) -> None:
    """Extend the wanted columns of each tensor by those that are read.

    The result is the smallest interval that contains both.
    """
    for name, (lower, upper) in reads:
        first, end = wanted.get(name, (lower, upper))
        wanted[name] = (min(first, lower), max(end, upper))


def column_count(value: Value) -> int:
    return value.shape[COLUMNS] if value.rank == IMAGE_RANK else 1


def necessary_macs(part: Part) -> int:
    # a streamed input has no nodes
    return part.macs(Region.whole(part.output.shape)) if part.nodes else 0


def computes_columns(part: Part) -> bool:
    """Whether a part can, in principle, compute some columns of its output without the rest;
    `Op.cropped` may still refuse an interval.
    """
    kernels = (part.kernel, *((part.fallback,) if part.fallback is not None else ()))
    return (
        len(part.nodes) == 1
        and isinstance(part.nodes[0].op, Croppable)
        and part.output.rank == IMAGE_RANK
        # the search asks the operator about each column
        and all(v.shape[-2:-1] <= (MOST_ROWS,) for v in (*part.variable_inputs, part.output))
        and all(
            k.by_rows and (k.body is None or (k.by_columns and part.output.shape[0] == 1))
            for k in kernels
        )
        # the state of a recurrent kernel is that of the previous row, not of a previous band
        and not any(k.recurrent for k in kernels)
    )


@frozen
class SampledBands:
    """The first, a middle and the last of the bands into which a tensor is divided."""

    intervals: tuple[Interval, ...]
    # For how many bands each of them stands.  All others are taken to be like the middle one, so
    # that the cost of an analysis does not grow with the number of bands.
    repeats: tuple[int, ...]
    count: int  # of bands

    @staticmethod
    def of(columns: int, width: int) -> SampledBands:
        count = -(-columns // width)
        numbers = sorted({0, count // 2, count - 1})
        bands = tuple((k * width, min((k + 1) * width, columns)) for k in numbers)
        return SampledBands(bands, (1,) * count if count <= 2 else (1, count - 2, 1), count)

    def wanted(self, tensor: str) -> list[dict[str, Interval]]:
        # only of its output, to be extended by `PartColumnReads.add`
        return [{tensor: interval} for interval in self.intervals]

    def widths(self, tensor: str, wanted: Sequence[Mapping[str, Interval]]) -> tuple[int, int]:
        """The columns of a tensor in the widest band, and the sum over all bands."""
        found = [band[tensor][1] - band[tensor][0] for band in wanted]
        return max(found), sum(a * b for a, b in zip(found, self.repeats, strict=True))


_Intervals = dict[Interval, tuple[Interval, ...] | None]
_Shared = tuple[Op, Site, tuple[bool, ...]]


@frozen
class PartColumnReads:
    """The columns that parts read; results are memoised, also across graphs with common parts."""

    # By identity, since parts of different graphs may have the same name; the part is kept, so that
    # no other one gets its identity.
    _known: dict[int, tuple[Part, tuple[str, ...], _Intervals]] = field(
        default_factory=dict[int, tuple[Part, tuple[str, ...], _Intervals]]
    )
    # Of parts that differ only in names and elements of constants.
    _shared: dict[_Shared, _Intervals] = field(default_factory=dict[_Shared, _Intervals])

    def add(self, part: Part, wanted: dict[str, Interval]) -> bool:
        """Add the input columns that a part reads to compute its wanted output columns, by tensor.

        Columns [4, 8) of a 3x3 convolution with padding add [3, 9) of its input.  False if none of
        its columns are wanted, or if it cannot compute only these.
        """
        interval = wanted.get(part.name)
        if interval is None:
            return False
        reads = self.columns(part, interval)
        add_reads(reads or (), wanted)
        return reads is not None

    def columns(self, part: Part, interval: Interval) -> ColumnReads | None:
        """The input columns read for output columns; None if only these cannot be computed."""
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
    out = with_columns(node.output.type, columns)
    if not isinstance(node.op, Croppable) or node.op.cropped(node.site, out) is None:
        return None
    return column_reads(node, columns)


ColumnNeeds = Callable[[str, Interval], Sequence[tuple[str, Interval]] | None]
"""The pairs (tensor, columns) that are read to compute some columns of a tensor; None if it is
impossible to compute only these columns."""


@frozen
class Span:
    """Columns of a tensor in a band: the band holds [lower, upper) and computes [begin, upper)."""

    lower: int
    begin: int
    upper: int

    @property
    def width(self) -> int:
        return self.upper - self.lower

    @property
    def kept(self) -> int:
        return self.begin - self.lower

    @property
    def computed(self) -> int:
        return self.upper - self.begin


Spans = Mapping[str, Span]
"""The columns of each tensor in one band, by name."""


def kept_spans(
    tensors: Sequence[str], columns: int, width: int, numbers: Sequence[int], needs: ColumnNeeds
) -> tuple[Spans, ...] | None:
    """The columns of each tensor that the bands `numbers` (ascending) hold and compute, by band.

    A tensor has a span in bands that compute or read it, or keep columns of it for a later band;
    the latter only if `numbers` has the next band, too.

    tensors: those that a band computes, in execution order; the last one, of `columns` columns, is
        divided into bands of `width` columns.

    None if it cannot be computed in such bands, or if two bands of a tensor are not adjacent.
    """
    found: list[dict[str, Span]] = []
    # By number of bands: how many leading columns of each tensor they need, together.
    known: dict[int, dict[str, int] | None] = {0: {}}
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
    """How many leading columns of each tensor the leading `columns` of the last one need."""
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
    """The spans of a band, given the leading columns computed when it begins and when it ends."""
    found: dict[str, Span] = {}
    lowers = {tensors[-1]: before.get(tensors[-1], 0)}
    for name in reversed(tensors):
        begin, upper = before.get(name, lowers.get(name, 0)), ends[name]
        if name not in lowers and upper == begin:
            continue
        lower = lowers.get(name, begin)
        if lower > begin:  # nobody would compute [begin, lower)
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
    """Extend the spans of a band by the columns that the next band holds but does not compute."""
    for name, next_span in after.items():
        if not next_span.kept:
            continue
        span = spans.get(name, Span(next_span.begin, next_span.begin, next_span.begin))
        # If it computes [5, 8), and the next one holds [4, 12) and computes [8, 12), it holds [4,
        # 8).
        lower = min(span.lower, next_span.lower)
        spans[name] = Span(lower, max(span.begin, lower), span.upper)


@frozen
class Location:
    """Where a band stores the columns of a tensor that it holds: indices of columns in its memory.

    Location(0, 4): the previous band has stored columns [0, 6) at 0 and kept columns 4 and 5, which
    this band moves to 0 and 1.
    """

    position: int  # of the first column that the band holds
    source: int | None = None  # where it is before the band moves the kept columns; None: no moves

    def moves(self, span: Span) -> tuple[Interval, ...]:
        """The columns that each move copies, as indices in the tensor, in the order of the moves.

        If columns [4, 9) are kept at position 2, they are copied as (4, 6), (6, 8), (8, 9).
        """
        if self.source is None:
            return ()
        # Later bands store their columns from position 0 on (`locations`), so a move of at most
        # `source` columns does not read what it writes.
        firsts = range(span.lower, span.begin, self.source)
        return tuple((first, min(first + self.source, span.begin)) for first in firsts)


def locations(spans: Sequence[Span]) -> tuple[Location, ...]:
    """Where consecutive bands store the columns of one tensor, given the span of each."""
    # A later band than the first stores its columns from position 0 on.
    found = [Location(_first_position(spans))]
    for before, span in pairwise(spans):
        source = found[-1].position + span.lower - before.lower
        if not span.computed or source == 0:  # a band that computes none leaves them where they are
            found.append(Location(source))
        else:
            found.append(Location(0, source if span.kept else None))
    return tuple(found)


def _first_position(spans: Sequence[Span]) -> int:
    # The second and the third band shall move their kept columns by the same distance, because
    # bands with equal moves can be iterations of one loop; but not if this takes more memory.
    if len(spans) < 2:
        return 0
    distance = spans[2].lower - spans[1].lower if len(spans) > 2 else spans[1].kept
    position = max(0, distance - (spans[1].lower - spans[0].lower))
    widest = max(span.width for span in spans)
    return position if position + spans[0].width <= widest else 0
