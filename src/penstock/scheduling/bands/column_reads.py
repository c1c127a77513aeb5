"""The input columns that parts read to compute some columns of their outputs."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.ir.op import Croppable
from penstock.ir.region import Interval, Region
from penstock.scheduling.bands.conditions import COLUMNS, RANK
from penstock.scheduling.model.part import Part

_Reads = tuple[tuple[str, Interval], ...]


@dataclass(frozen=True, slots=True)
class ColumnReads:
    """Derives the columns that the parts of one graph read; results are memoised.

    _known: by (name of a part, columns of its output), the columns of each tensor that it reads;
        None if the part cannot compute these columns by themselves.
    """

    _known: dict[tuple[str, Interval], _Reads | None] = field(
        default_factory=dict[tuple[str, Interval], _Reads | None]
    )

    def add(self, part: Part, wanted: dict[str, Interval]) -> bool:
        """Add to `wanted` the input columns that a part reads to compute its wanted output columns.

        wanted: the columns of each tensor that a band needs, by tensor name.

        Returns False if the part cannot run in bands.
        """
        if part.name not in wanted:
            return False
        reads = self.columns(part, wanted[part.name])
        for name, (lower, upper) in reads or ():
            first, end = wanted.get(name, (lower, upper))
            wanted[name] = (min(first, lower), max(end, upper))
        return reads is not None

    def columns(self, part: Part, interval: Interval) -> _Reads | None:
        """Return the columns of each tensor that a part reads to compute some output columns.

        None if the part cannot compute these columns by themselves.
        """
        key = part.name, interval
        if key not in self._known:
            self._known[key] = _reads(part, interval)
        return self._known[key]


def _reads(part: Part, columns: Interval) -> _Reads | None:
    """Return the columns of each tensor that a part reads to compute some output columns."""
    node = part.nodes[0]
    out = Region.whole(node.output.type.shape).replace(COLUMNS, columns)
    if not isinstance(node.op, Croppable) or node.op.cropped(node.site, out) is None:
        return None
    found: list[tuple[str, Interval]] = []
    for value, need in zip(node.inputs, node.op.needs(node.site, out), strict=True):
        if value.data is not None:
            if need != Region.whole(value.type.shape):
                return None
        elif value.type.rank != RANK or need.empty:
            return None
        else:
            found.append((value.name, need.intervals[COLUMNS]))
    return tuple(found)
