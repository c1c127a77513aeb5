"""DSP kernel of fully connected layers."""

from __future__ import annotations

import numpy as np

from penstock.backends.cores.common.layer import certified_layer
from penstock.backends.cores.dsp import tiles
from penstock.ir.op import Kernel, Site
from penstock.ops.fully_connected import FullyConnected


def fully_connected_kernel(op: FullyConnected, site: Site) -> Kernel | None:
    """Return the fully connected kernel, which computes four outputs at a time.

    Returns None if the number of inputs is not a multiple of four, if the kernel's
    requantisation is not proved bit-exact, or if a packed pair of weights exceeds 16 bits."""
    x, w, _ = site.inputs
    outputs, depth = w.shape
    if depth % tiles.QUAD:
        return None
    layer = certified_layer(op, site, tiles.FRACTION_BITS, np.arange(outputs))
    if layer is None:
        return None
    weights = tiles.packed_weights(layer.weights[:, tiles.window_order(1, depth)])
    if weights is None:
        return None
    return Kernel(
        "fully_connected_s8_dsp",
        params=(
            ("batches", x.elements // depth),
            ("in_c", depth),
            ("out_c", outputs),
            *layer.shared_params,
        ),
        tables=(("weights", weights), ("scales", tiles.packed_scales(layer))),
        folded=(1, 2),
        classes=layer.classes,
    )
