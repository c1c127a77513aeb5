"""PASSES: the rewrites that simplify a graph, in order; a line that must stand where it stands says
why."""

from __future__ import annotations

from collections.abc import Callable

from penstock.ir.graph import Graph
from penstock.passes.accumulate import accumulate
from penstock.passes.drop_dead import drop_dead
from penstock.passes.fold_constants import fold_constants
from penstock.passes.fold_padding import fold_padding
from penstock.passes.free_identities import free_identities
from penstock.passes.fuse_activation import fuse_activation

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    fold_constants,
    free_identities,
    fold_padding,
    fuse_activation,
    accumulate,  # behind all that look for reductions as model files have them
    drop_dead,  # last: the others leave nodes that nobody reads
)
