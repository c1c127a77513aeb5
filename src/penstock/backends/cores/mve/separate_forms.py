"""MVE kernel of fully connected layers, with a requantisation form for each output."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.cores.common.accumulators import weight_matrix
from penstock.backends.cores.common.separate_forms import separate_forms_kernel
from penstock.backends.cores.mve import instructions
from penstock.backends.cores.mve.packing import QUAD, VECTOR, packed_weights
from penstock.ir.op import Kernel, Site
from penstock.ops.fully_connected import FullyConnected


def separate_forms(op: FullyConnected, site: Site) -> Kernel:
    """Return the kernel `fully_connected_forms_s8_mve`, with its estimated cycles.

    It computes the accumulators of four outputs at a time, and then requantises each of them in
    the requantisation form of its output."""
    x, w, _ = site.inputs
    outputs, depth = w.shape
    steps = -(-depth // VECTOR)
    weights = packed_weights(weight_matrix(op, site), QUAD)
    kernel = separate_forms_kernel("fully_connected_forms_s8_mve", op, site, weights)
    return replace(
        kernel, work_cycles=instructions.separate_forms(x.elements // depth, outputs, steps)
    )
