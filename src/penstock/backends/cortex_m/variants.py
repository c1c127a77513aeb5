"""The one place that decides which kernel serves a node on a Cortex-M."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from penstock.backends.cortex_m import dsp, mve, thumb
from penstock.backends.cortex_m.figures import cycles
from penstock.backends.cortex_m.forms import with_forms
from penstock.backends.cortex_m.layer import LayerOp, constant_outputs
from penstock.ir.op import Kernel, Op, Site

FAMILIES: Mapping[str, Callable[[Op, Site], Kernel | None]] = {
    "portable": lambda op, site: None,
    "dsp": dsp.dsp_kernel,
    "thumb": thumb.thumb_kernel,
    "mve": mve.mve_kernel,
}
"""By the `kernels` of an engine: the special kernel of an operator; None where the portable one
serves."""
LEAN_FAMILIES: Mapping[str, Callable[[Op, Site], Kernel | None]] = {
    "dsp": dsp.lean_kernel,
    "mve": dsp.lean_kernel,
}
"""The same, of kernels that need no scratch, for operators whose special kernel may need some."""


def kernel_for(op: Op, site: Site, kernels: str) -> Kernel:
    """The kernel that serves a node on an engine with these kernels."""
    return kernels_for(op, site, kernels)[0]


def kernels_for(op: Op, site: Site, kernels: str) -> tuple[Kernel, Kernel | None]:
    """The kernel that serves a node on an engine with these kernels; and where that needs scratch,
    the one that serves it without."""
    fast = _certified(FAMILIES[kernels](op, site), op, site, kernels)
    if not fast.scratch_bytes:
        return fast, None
    lean = LEAN_FAMILIES[kernels](op, site) if kernels in LEAN_FAMILIES else None
    if lean is None:
        return fast, _certified(None, op, site, kernels)
    lean = _with_constant_channels(lean, op, site)
    is_faster = cycles(op, site, lean, kernels) <= cycles(op, site, fast, kernels)
    return (lean, None) if is_faster else (fast, lean)


def _certified(special: Kernel | None, op: Op, site: Site, kernels: str) -> Kernel:
    """The special kernel, or the portable one; where all are portable, as the reference has it."""
    if special is not None:
        return _with_constant_channels(special, op, site)
    kernel = op.kernel(site)
    if kernels == "portable":
        return kernel
    return _with_constant_channels(with_forms(op, site, kernel), op, site)


def _with_constant_channels(kernel: Kernel, op: Op, site: Site) -> Kernel:
    """The kernel, with the channels whose output is the same for every input."""
    if not isinstance(op, LayerOp) or not kernel.classes:
        return kernel
    is_constant, _ = constant_outputs(op, site)
    return replace(kernel, constant_channels=tuple(np.flatnonzero(is_constant).tolist()))
