"""Figures of portable kernels whose cycles the linear figures of an engine, which are fitted to
layers with weights, miss by far: copies, totals, softmax.

Each is a linear fit to what the simulated core counts; on a Cortex-M55 it counts instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.backends.cortex_m.forms import with_forms
from penstock.ir.op import Kernel, Op, Site, row_count
from penstock.ops.average_last import AverageLast
from penstock.ops.concatenation import Concatenation
from penstock.ops.mean import Mean
from penstock.ops.pad import Pad
from penstock.ops.requantise_last import RequantiseLast
from penstock.ops.running_sum import RunningSum
from penstock.ops.slice import Slice
from penstock.ops.softmax import Softmax
from penstock.ops.sum import Sum


@dataclass(frozen=True, slots=True)
class Figures:
    """Cycles on one kind of core.

    added, added_to       of totals row by row: an element that is added, one that is added to
    averaged, requantised an output made of such totals
    summed, total         of totals at once: an element, an output
    softmax, vector       an element of a softmax, each vector
    copied, row, piece    a byte that is copied; each row; each piece of a row put together"""

    added: float
    added_to: float
    averaged: float
    requantised: float
    summed: float
    total: float
    softmax: float
    vector: float
    copied: float
    row: float
    piece: float


DSP = Figures(4.1, 0, 25, 42.5, 4, 30, 40, 100, 1.13, 57, 68)
MVE = Figures(3, 0, 25, 20, 3, 25, 24.2, 110, 0.63, 39, 42)
THUMB = Figures(7, 22, 440, 97, 5, 75, 120, 400, 4.1, 90, 120)


def portable_kernel(op: Op, site: Site, of: Figures) -> Kernel | None:
    """The portable kernel of an operator of which figures are known."""
    cycles = _cycles(op, site, of)
    if cycles is None:
        return None
    return replace(with_forms(op, site, op.kernel(site)), work_cycles=round(cycles))


def _cycles(op: Op, site: Site, of: Figures) -> float | None:
    x, y = site.inputs[0], site.output
    match op:
        case RunningSum():
            return of.added * x.elements + of.added_to * y.elements
        case AverageLast():
            return of.averaged * y.elements
        case RequantiseLast():
            return of.requantised * y.elements
        case Mean() | Sum():
            return of.summed * x.elements + of.total * y.elements
        case Softmax():
            return of.softmax * y.elements + of.vector * (y.elements // y.shape[-1])
        case Concatenation() | Pad() | Slice():
            return _copying(op, site, of)
        case _:
            return None


def _copying(op: Concatenation | Pad | Slice, site: Site, of: Figures) -> float | None:
    """Of runs of bytes; None where elements are copied one by one."""
    y, kernel = site.output, op.kernel(site)
    known = dict(kernel.params)
    copied = of.copied * y.size_bytes
    if kernel.name == "concatenate_columns":
        return copied + of.piece * known["pieces"] * known["inputs"] * row_count(y.shape)
    if kernel.name == "concatenate_rows" or (kernel.name == "strided" and known["step_c"] == 1):
        return copied + of.row * row_count(y.shape)
    return None
