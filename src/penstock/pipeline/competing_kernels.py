"""The kernels of a core family that compete for the layers of the processor."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.backends.cores.family import competing_kernels, core_family
from penstock.pipeline.compilation import Compilation
from penstock.reports.report import CompetingKernel


def kernels_in_competition(done: Compilation) -> tuple[CompetingKernel, ...]:
    """Return the kernels that could compute each layer, the fastest of a layer first; without
    layers for which there is a single kernel, or whose kernel has no competitors."""
    return tuple(_competing(done))


def _competing(done: Compilation) -> Iterator[CompetingKernel]:
    processor = done.request.target.engines[0]
    family = core_family(processor.kernels)
    for part in done.schedule.assigned_parts.parts:
        if part.engine != processor.name or not part.nodes:
            continue
        node = part.nodes[0]
        rivals = dict(competing_kernels(node.op, node.site, family))
        own = rivals.get(part.kernel.name)
        if own is None or len(rivals) < 2:
            continue
        for kernel, cycles in rivals.items():
            yield CompetingKernel(part.name, kernel, cycles, cycles - own)
