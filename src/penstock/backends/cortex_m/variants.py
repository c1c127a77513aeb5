"""The one place that decides which kernel serves a node on a Cortex-M."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.backends.cortex_m import dsp, mve, thumb
from penstock.backends.cortex_m.layer import LayerOp
from penstock.ir.op import Kernel, Op, Site
from penstock.ops.requantise_last import RequantiseLast
from penstock.requantisation.form import Class

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
    fast = _classified(FAMILIES[kernels](op, site), op, site, kernels)
    if not fast.scratch_bytes:
        return fast, None
    lean = LEAN_FAMILIES[kernels](op, site) if kernels in LEAN_FAMILIES else None
    if lean is None:
        return fast, _classified(None, op, site, kernels)
    return (lean, None) if _cycles(lean) <= _cycles(fast) else (fast, lean)


def _classified(special: Kernel | None, op: Op, site: Site, kernels: str) -> Kernel:
    """The special kernel; or the portable one, whose requantisation is the reference's own."""
    if special is not None:
        return special
    kernel = op.kernel(site)
    if kernels == "portable" or not isinstance(op, LayerOp | RequantiseLast):
        return kernel
    return replace(kernel, classes=Class.D.value * site.output.shape[-1])


def _cycles(kernel: Kernel) -> int:
    assert kernel.work_cycles is not None, "special kernels know what they cost"
    return kernel.work_cycles
