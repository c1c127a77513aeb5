"""MVE kernel of fully connected layers that requantises each output in a form of its own."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.cores.common.accumulators import weight_matrix
from penstock.backends.cores.common.separate_forms import separate_forms_kernel
from penstock.backends.cores.mve import instructions
from penstock.backends.cores.mve.packing import EIGHT, VECTOR, packed_weights
from penstock.ir.op import Kernel, Site
from penstock.ops.fully_connected import FullyConnected


def separate_forms(op: FullyConnected, site: Site) -> Kernel:
    """Return the kernel, which computes eight outputs at a time."""
    x, w, _ = site.inputs
    outputs, depth = w.shape
    steps, rest = divmod(depth, VECTOR)
    weights = packed_weights(weight_matrix(op, site), EIGHT)
    kernel = separate_forms_kernel("fully_connected_forms_s8_mve", op, site, weights)
    return replace(
        kernel,
        params=(*kernel.params, ("steps", steps), ("rest", rest)),
        work_cycles=instructions.separate_forms(x.elements // depth, outputs, steps, rest),
    )
