"""Fully connected kernels in which each output has a requantisation form of its own.

A requantisation form is arithmetic that converts an accumulator to an output.  Kernels with one
form for all outputs need fewer cycles, but for some layers, no such form is proved bit-exact: the
accumulators have too many bits, or some outputs need other constants.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.backends.cores.common.accumulators import weight_matrix
from penstock.backends.cores.common.forms import certified_forms, form_table
from penstock.ir.op import Kernel, Site, Table
from penstock.ops.fully_connected import FullyConnected


def separate_forms_kernel(name: str, op: FullyConnected, site: Site, weights: Table) -> Kernel:
    """Return a fully connected kernel in which each output has a requantisation form of its own.

    A requantisation form is arithmetic that converts an accumulator to an output.  The kernel suits
    layers for which no single form is proved bit-exact for all outputs.

    name: the name of the kernel's C function, which depends on the core family.
    weights: the weights of the layer, in the order in which the kernel reads them."""
    classes, forms = certified_forms(op, site)
    matrix = weight_matrix(op, site)
    bias = site.constant(2).astype(np.int64) - site.inputs[0].zero_point * matrix.sum(axis=1)
    outputs, depth = matrix.shape
    least, most = op.activation.bounds(site.output)
    return Kernel(
        name,
        params=(
            ("batches", math.prod(site.output.shape[:-1])),
            ("in_c", depth),
            ("out_c", outputs),
            ("least", least),
            ("most", most),
        ),
        tables=(
            ("weights", weights),
            ("bias", Table.of(bias.astype(np.int32))),
            ("forms", form_table(forms)),
        ),
        folded=(1, 2),
        classes=classes,
    )
