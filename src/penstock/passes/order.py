"""PASSES: the rewrites that simplify a graph, in order; a line that must stand where it stands says
why."""

from __future__ import annotations

from collections.abc import Callable

from penstock.ir.graph import Graph
from penstock.passes.drop_dead import drop_dead
from penstock.passes.fold_constants import fold_constants

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    fold_constants,
    drop_dead,  # last: the others leave nodes that nobody reads
)
