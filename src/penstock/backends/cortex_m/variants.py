"""The one place that decides which kernel serves a node on a Cortex-M."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.backends.cortex_m import dsp, thumb
from penstock.backends.cortex_m.layer import LayerOp
from penstock.ir.op import Kernel, Op, Site
from penstock.requantisation.form import Class

FAMILIES: Mapping[str, Callable[[Op, Site], Kernel | None]] = {
    "portable": lambda op, site: None,
    "dsp": dsp.dsp_kernel,
    "thumb": thumb.thumb_kernel,
}
"""By the `kernels` of an engine: the special kernel of an operator; None where the portable one
serves."""


def kernel_for(op: Op, site: Site, kernels: str) -> Kernel:
    """The kernel that serves a node on an engine with these kernels."""
    special = FAMILIES[kernels](op, site)
    if kernels == "portable" or not isinstance(op, LayerOp):
        return special or op.kernel(site)
    if special is None:
        return replace(op.kernel(site), classes=Class.D.value * site.output.shape[-1])
    letters = special.classes or "".join(c.value for c in classes_of(op, site, kernels))
    return replace(special, classes=letters)


CLASSES: Mapping[str, Callable[[Op, Site], tuple[Class, ...]]] = {
    "dsp": dsp.classes_of,
    "thumb": thumb.classes_of,
}


def classes_of(op: Op, site: Site, kernels: str) -> tuple[Class, ...]:
    """The class of requantisation of each output channel on an engine with these kernels; none
    where an operator has no weights, or nothing is certified."""
    return CLASSES[kernels](op, site) if kernels in CLASSES else ()
