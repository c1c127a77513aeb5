"""DSP kernels of fully connected layers, which compute four outputs at a time."""

from __future__ import annotations

import numpy as np

from penstock.backends.cores.common.layer import certified_layer
from penstock.backends.cores.common.separate_forms import separate_forms_kernel
from penstock.backends.cores.dsp import tiles
from penstock.backends.cores.dsp.partial import packed_products
from penstock.ir.op import Kernel, Site
from penstock.ops.fully_connected import FullyConnected


def fully_connected_kernel(op: FullyConnected, site: Site) -> Kernel | None:
    """Return the kernel of a fully connected layer.

    All outputs share one requantisation form (arithmetic from accumulator to output) if this form
    is proved bit-exact and the weights can be packed in pairs.  Otherwise, each output has a
    requantisation form of its own.

    Returns None if the number of inputs is not a multiple of four."""
    if site.inputs[1].shape[1] % tiles.QUAD:
        return None
    weights = site.constant(1)
    return _shared_form(op, site) or separate_forms_kernel(
        "fully_connected_forms_s8_dsp", op, site, packed_products(weights)
    )


def _shared_form(op: FullyConnected, site: Site) -> Kernel | None:
    """Return the kernel in which all outputs share one requantisation form (arithmetic from
    accumulator to output).

    Returns None if this form is not proved bit-exact, or if the weights cannot be packed in pairs
    (`tiles.packed_weights`)."""
    x, w, _ = site.inputs
    outputs, depth = w.shape
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
