"""The one place that decides which kernel serves a node on a Cortex-M."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.backends.cortex_m.dsp import dsp_kernel
from penstock.backends.cortex_m.mve import mve_kernel
from penstock.ir.op import Kernel, Op, Site

FAMILIES: Mapping[str, Callable[[Op, Site], Kernel | None]] = {
    "portable": lambda op, site: None,
    "dsp": dsp_kernel,
    "mve": mve_kernel,
}
"""By the `kernels` of an engine: the special kernel of an operator; None where the portable one
serves."""


def kernel_for(op: Op, site: Site, kernels: str) -> Kernel:
    """The kernel that serves a node on an engine with these kernels."""
    return FAMILIES[kernels](op, site) or op.kernel(site)
