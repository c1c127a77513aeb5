"""What the report says about the kernels of the processor: those that compete for a layer, and
layers that take many cycles because the core family of the target has none for them."""

from __future__ import annotations

from collections import Counter

from penstock.backends.cores.family import competing_kernels, core_family, select_kernels
from penstock.pipeline.compilation import Compilation
from penstock.reports.report import CompetingKernel, PortableLayer
from penstock.reports.steps import numbered_steps

NOTABLE_SHARE = 0.1
"""Least fraction of the estimated cycles of a layer that a report names."""


def portable_layers(done: Compilation) -> tuple[PortableLayer, ...]:
    """Return the layers with a notable share of the cycles that the processor runs in portable C,
    although its core family has kernels; without those for which portable C is faster."""
    processor, schedule = done.request.target.engines[0], done.schedule
    family = core_family(processor.kernels)
    if family.is_plain_c:
        return ()
    cycles = Counter[str]()
    for one in numbered_steps(schedule, done.program):
        if one.part.engine == processor.name:
            cycles[one.tensor] += one.cost.cycles
    found: list[PortableLayer] = []
    for node in schedule.assigned_parts.graph.nodes:
        share = cycles[node.name] / max(1, schedule.cost.cycles)
        if share < NOTABLE_SHARE:
            continue
        op, site = node.op, node.site
        if select_kernels(op, site, family).kernel.then is not None:  # computes a few channels
            continue
        special, condition = family.kernel(op, site), family.unmet_condition(op, site)
        if special is None or (condition and special.name == op.kernel(site).name):
            found.append(PortableLayer(node.name, node.kind, share, family.name, condition))
    return tuple(found)


def kernels_in_competition(done: Compilation) -> tuple[CompetingKernel, ...]:
    """Return the kernels that could compute each layer, the fastest of a layer first; without
    layers for which there is a single kernel, or whose kernel has no competitors."""
    found: list[CompetingKernel] = []
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
            found.append(CompetingKernel(part.name, kernel, cycles, cycles - own))
    return tuple(found)
