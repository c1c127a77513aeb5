"""TiledGroups: the groups in tiles of a network that is compiled for NVDLA."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.pipeline.compilation import Compilation
from penstock.scheduling.model.parts import fused_members
from penstock.uma import Offloaded
from penstock_nvdla.fused import LayerGroup, TileSize, chosen_plan, layer_group


def tiled_groups(done: Compilation) -> Iterator[tuple[LayerGroup, TileSize]]:
    """Each group in tiles, and the size of its tiles."""
    (accelerator,) = done.request.accelerators
    for part in done.schedule.parts.parts:
        if fused_members(part):
            offloaded = Offloaded(part.nodes[-1], accelerator.target)
            plan = chosen_plan(offloaded)
            assert plan is not None
            yield layer_group(offloaded), plan.size
