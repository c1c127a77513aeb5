"""DSP kernel of `PartialProduct`, an operator that adds a matrix product to int32 accumulators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.backends.cores.dsp.tiles import QUAD
from penstock.ir.op import Kernel, Site, Table
from penstock.ir.tensor import Array
from penstock.ops.partial_product import PartialProduct


def partial_kernel(op: PartialProduct, site: Site) -> Kernel | None:
    """Return the DSP kernel of `op`, which computes four output channels at a time.

    Returns None if the number of input channels is not a multiple of four."""
    weights = site.constant(2)
    if weights.shape[1] % QUAD:
        return None
    portable = op.kernel(site)
    return replace(
        portable,
        name="partial_product_s8_dsp",
        tables=(*portable.tables, ("weights", packed_products(weights))),
        constants=tuple((k, name) for k, name in portable.constants if name != "weights"),
        folded=(2,),
    )


def packed_products(weights: Array) -> Table:
    """Return weights of shape (outputs, inputs) in the order of `runtime/products_dsp.h`.

    Axes of the result: group of four outputs, group of four inputs, output in group, input in
    group.  The outputs are padded with zeros to a multiple of four."""
    padded = np.pad(weights, ((0, -weights.shape[0] % QUAD), (0, 0)))
    return Table.of(padded.reshape(len(padded) // QUAD, QUAD, -1, QUAD).swapaxes(1, 2).ravel())
