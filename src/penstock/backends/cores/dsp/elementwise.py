"""Element-wise sums and products on DSP cores, with broadcasting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.backends.cores.common.layer import weighted_pairs
from penstock.backends.cores.dsp.counts import DSP_CYCLES
from penstock.ir.op import Kernel, Site, Table, row_kernel
from penstock.ir.tensor import Array, Region, row_count
from penstock.opkit import broadcast
from penstock.opkit.lookup import ELEMENTS
from penstock.ops.binary import Add, Mul, Sub
from penstock.requantisation.certify import certify
from penstock.requantisation.form import Channels

FOUR = 4
# Fraction bits of the requantisation form; a product of two inputs has 17 bits with its sign.
FRACTION_BITS = 12
Params = tuple[tuple[str, int], ...]  # Kernel parameters as (name, value) pairs.


def elementwise_kernel(op: Add | Sub | Mul, site: Site) -> Kernel | None:
    """Return the kernel for an element-wise operator.

    If all elements of a constant input have the same value, the kernel looks outputs up in a table.
    Otherwise it computes four elements at a time, with arithmetic that is proved bit-exact.
    Returns None if there is no such kernel or portable C is faster."""
    found = _looked_up(op, site)
    if found is None:
        found = _product(op, site) if isinstance(op, Mul) else _sum(op, site)
    portable = op.kernel(site)
    if found is None or DSP_CYCLES.cycles(op, site, found) > DSP_CYCLES.cycles(op, site, portable):
        return None
    return found


def _looked_up(op: Add | Sub | Mul, site: Site) -> Kernel | None:
    """Returns None unless this input has the output's shape, and the other input is a constant
    whose elements all have the same value."""
    for k, constant in enumerate(site.constants):
        x = site.inputs[1 - k]
        if constant is not None and x.shape == site.output.shape:
            values = np.unique(site.constant(k))
            if len(values) == 1:
                return row_kernel(
                    "lookup_s8",
                    width=x.elements // row_count(x.shape),
                    table=Table.of(_outputs(op, site, k, values)),
                    folded=(k,),
                )
    return None


def _outputs(op: Add | Sub | Mul, site: Site, k: int, value: Array) -> Array:
    """The 256 outputs of an operator whose input `k` is constant, for a look-up table."""
    # Entry i is the output for the element i - 128 of the other input.
    left, right, output = (type.with_shape(ELEMENTS.shape) for type in (*site.inputs, site.output))
    every, same = ELEMENTS.astype(np.int8), np.repeat(value, len(ELEMENTS))
    inputs = (every, same) if k else (same, every)
    alone = Site((left, right), output, (None, None))
    return op.evaluate(alone, inputs, Region.whole(output.shape))


def _sum(op: Add | Sub, site: Site) -> Kernel | None:
    # The kernel computes (a * left + b * right + offset) >> shift for elements a and b of the
    # inputs; left, right, offset and shift are constants.
    #
    # Returns None if no such constants yield the operator's outputs for all inputs, or if the
    # output cannot be divided into runs of at least four elements (`_run_params`).
    rows, found = _run_params(op, site), weighted_pairs(op, site)
    if rows is None or found is None:
        return None
    return row_kernel("add_s8_dsp", rows, found)


def _product(op: Mul, site: Site) -> Kernel | None:
    """Returns None if the requantisation is not proved bit-exact, or if the output cannot be
    divided into runs of at least four elements (`_run_params`)."""
    rows, found = _run_params(op, site), certify(_channel(op, site), FRACTION_BITS)
    if rows is None or found.outside.any():
        return None
    form = found.form
    return replace(
        row_kernel(
            "mul_s8_dsp",
            rows,
            zero0=site.x.zero_point,
            zero1=site.inputs[1].zero_point,
            offset=int(form.offset[0]),
            correction=int(form.correction[0]),
            factor=int(form.factor[0]),
            base=int(form.base[0]),
            shift=form.shift,
        ),
        classes=found.classes[0].value * broadcast.extended(site.output.shape)[3],
    )


def _channel(op: Mul, site: Site) -> Channels:
    """The requantisation of products, as `Channels` with a single channel.

    The result holds the multiplier and shift of the reference runtime, and the range of the
    products."""
    ends = [np.array(_range(site, k)) - x.zero_point for k, x in enumerate(site.inputs)]
    reached = np.multiply.outer(*ends)
    multiplier, shift = op.multiplier(site)
    return Channels(
        np.array([multiplier], np.int64),
        np.array([shift], np.int64),
        np.array([reached.min()], np.int64),
        np.array([reached.max() + 1], np.int64),
        site.output.zero_point,
        *op.activation.bounds(site.output),
    )


def _range(site: Site, k: int) -> tuple[int, int]:
    """The smallest and the largest quantised value of the input of index `k`."""
    # These are the extremes of its elements if it is constant, and otherwise those of int8.
    if site.constants[k] is None:
        return -128, 127
    return int(site.constant(k).min()), int(site.constant(k).max())


def _run_params(op: Add | Sub | Mul, site: Site) -> Params | None:
    # Most of them divide output rows into runs, which the kernels compute four elements at a time.
    # In a run, each input has either one element per output element, or a single element for the
    # whole run (broadcasting).  If the whole row is such a run, it is not divided; otherwise, each
    # pixel is a run.  For example, if one input has shape (H, W, 1), its element changes from pixel
    # to pixel, so each pixel is a run.
    #
    # Returns None if a run has fewer than four elements.
    steps = dict(broadcast.params(site))
    _, _, width, channels = broadcast.extended(site.output.shape)
    shapes = [broadcast.extended(x.shape)[2:] for x in site.inputs]
    is_one = all(shape in ((width, channels), (1, 1)) for shape in shapes)
    runs, length = (1, width * channels) if is_one else (width, channels)
    if length < FOUR:
        return None
    repeated = [wide * deep == 1 if is_one else deep == 1 for wide, deep in shapes]
    together = 1 if length % FOUR or any(repeated) else runs
    least, most = op.activation.bounds(site.output)
    return (
        *((name, steps[name]) for name in ("out_h", "step0_n", "step0_h", "step1_n", "step1_h")),
        ("calls", runs // together),
        ("runs", together),
        ("length", length),
        ("run_step0", steps["step0_w"]),
        ("run_step1", steps["step1_w"]),
        ("repeated0", int(repeated[0])),
        ("repeated1", int(repeated[1])),
        ("least", least),
        ("most", most),
    )
