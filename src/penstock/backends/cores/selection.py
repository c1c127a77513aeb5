"""Selection of the kernels that compute a node on a processor core."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.backends.cores.common.layer import LayerOp, constant_outputs, with_forms
from penstock.backends.cores.family import CoreFamily
from penstock.ir.op import Kernel, Op, Site


@dataclass(frozen=True, slots=True)
class SelectedKernels:
    """The kernel of a node and, if it needs scratch memory, a fallback kernel without scratch.

    `fallback` is None if `kernel` needs no scratch."""

    kernel: Kernel
    fallback: Kernel | None = None


def select_kernels(op: Op, site: Site, family: CoreFamily) -> SelectedKernels:
    """Return the kernels that compute an operator on cores of a family, with their cycles.

    If the kernel needs scratch memory, the result also contains a fallback kernel without scratch:
    the family's or, if the family has none, the portable kernel.  If the family's fallback kernel
    takes no more cycles than the kernel with scratch, it is the only kernel in the result."""
    kernel = _with_portable(family.kernel(op, site), op, site, family)
    if not kernel.scratch_bytes:
        return SelectedKernels(family.priced(op, site, kernel))
    special = family.fallback_kernel(op, site)
    fallback = _with_portable(special, op, site, family)
    if special is not None and family.cycles(op, site, fallback) <= family.cycles(op, site, kernel):
        return SelectedKernels(family.priced(op, site, fallback))
    return SelectedKernels(family.priced(op, site, kernel), family.priced(op, site, fallback))


def _with_portable(special: Kernel | None, op: Op, site: Site, family: CoreFamily) -> Kernel:
    """The kernel `special` of the family, or the portable kernel if `special` is None."""
    if special is not None:
        return _with_constant_channels(special, op, site)
    kernel = op.kernel(site)
    if not family.certifies_portable:
        return kernel
    return _with_constant_channels(with_forms(op, site, kernel), op, site)


def _with_constant_channels(kernel: Kernel, op: Op, site: Site) -> Kernel:
    # A constant channel is an output channel that has the same value for every input.  The kernel
    # is returned unchanged if the operator has no weights, or if it does not requantise its
    # outputs.
    if not isinstance(op, LayerOp) or not kernel.classes:
        return kernel
    is_constant, _ = constant_outputs(op, site)
    return replace(kernel, constant_channels=tuple(np.flatnonzero(is_constant).tolist()))
