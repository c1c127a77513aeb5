"""Necessary conditions for a cascade to run once for each band, an interval of columns."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.ir.columns import COLUMNS, RANK
from penstock.ir.op import MOST_ROWS, Croppable
from penstock.scheduling.cascades.candidate import Candidate
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.simulate.walk import WHOLE


def computes_columns(part: Part) -> bool:
    """Return whether a part can, in principle, compute some columns of its output without the rest.

    An operator may still be unable to compute a certain interval of columns.  The conditions are:
    - The part consists of one node, and its operator can be cropped (`Croppable`).
    - The output is a batch of one image, and no image has more than `MOST_ROWS` columns.
    - No kernel of the part is recurrent.
    - All kernels can compute any interval of rows (`Kernel.by_rows`), and can access columns of
      wider tensors (`Kernel.by_columns`).
    """
    kernels = (part.kernel, *((part.fallback,) if part.fallback is not None else ()))
    return (
        len(part.nodes) == 1
        and isinstance(part.nodes[0].op, Croppable)
        and part.output.type.rank == RANK
        and part.output.type.shape[0] == 1
        and all(v.type.shape[-2:-1] <= (MOST_ROWS,) for v in (*part.variable_inputs, part.output))
        and all(k.by_rows and (k.body is None or k.by_columns) for k in kernels)
        and not any(k.recurrent for k in kernels)
    )


def can_run_in_bands(parts: Parts, cascade: Sequence[int], candidate: Candidate) -> bool:
    """Return whether a cascade meets the necessary conditions for running in bands of columns.

    cascade: indices of the cascade's parts, in execution order.
    candidate: the same cascade, with the width of the bands and the height of the stripes.

    The conditions are not sufficient: an operator may be unable to compute the columns of some
    band.
    """
    found = [parts.parts[k] for k in cascade]
    if not found or not all(map(computes_columns, found)):
        return False
    width, columns = candidate.band_columns, found[-1].output.type.shape[COLUMNS]
    if width is None or not 1 <= width <= columns or not 1 <= candidate.stripe <= WHOLE:
        return False
    return all(_is_read_later_only(parts, cascade, p) for p in range(len(cascade) - 1))


def _is_read_later_only(parts: Parts, cascade: Sequence[int], p: int) -> bool:
    """Return whether only later parts of the same cascade use a part's output.

    The result is False if the output has no reader, or is an output of the network.
    """
    name = parts.parts[cascade[p]].name
    if any(value.name == name for value in parts.graph.results):
        return False
    later = {parts.parts[k].name for k in cascade[p + 1 :]}
    readers = parts.graph.consumers().get(name, ())
    return bool(readers) and all(node.name in later for node in readers)
