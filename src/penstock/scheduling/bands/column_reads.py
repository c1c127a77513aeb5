"""The input columns that parts read to compute some columns of their outputs."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.ir.columns import ColumnReads, add_reads, column_reads, with_columns
from penstock.ir.op import Croppable
from penstock.ir.region import Interval
from penstock.scheduling.model.part import Part


@dataclass(frozen=True, slots=True)
class PartColumnReads:
    """Derives the columns that parts read; results are memoised.

    Graphs that have parts in common can share the results.

    _known: results of `columns`, each with its part, by (name of the part, columns of its output).
        A result is used only for the same part object: a part of another graph may have its name.
    """

    _known: dict[tuple[str, Interval], tuple[Part, ColumnReads | None]] = field(
        default_factory=dict[tuple[str, Interval], tuple[Part, ColumnReads | None]]
    )

    def add(self, part: Part, wanted: dict[str, Interval]) -> bool:
        """Add to `wanted` the input columns that a part reads to compute its wanted output columns.

        wanted: the columns of each tensor that a band needs, by tensor name.  For example, a 3x3
            convolution with padding, whose output columns [4, 8) are wanted, adds the columns
            [3, 9) of its input.

        Returns False if no columns of the part's output are wanted, or if the part cannot compute
        only the wanted ones.
        """
        if part.name not in wanted:
            return False
        reads = self.columns(part, wanted[part.name])
        add_reads(reads or (), wanted)
        return reads is not None

    def columns(self, part: Part, interval: Interval) -> ColumnReads | None:
        """Return which columns of tensors a part reads to compute some output columns.

        The result consists of pairs (tensor name, columns).
        interval: the output columns.

        Returns None if the part cannot compute only these columns.
        """
        key = part.name, interval
        known = self._known.get(key)
        if known is None or known[0] is not part:
            known = self._known[key] = part, _reads(part, interval)
        return known[1]


def _reads(part: Part, columns: Interval) -> ColumnReads | None:
    """Return which columns of tensors a part reads to compute the output columns `columns`.

    The result consists of pairs (tensor name, columns).  It is None if the part cannot compute only
    these output columns.
    """
    node = part.nodes[0]
    out = with_columns(node.output.type, columns)
    if not isinstance(node.op, Croppable) or node.op.cropped(node.site, out) is None:
        return None
    return column_reads(node, columns)
