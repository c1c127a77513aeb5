"""The input columns that parts read to compute some columns of their outputs."""

from __future__ import annotations

from dataclasses import dataclass, field

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
