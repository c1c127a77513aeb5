"""The order of the passes.  Comments state the reasons for constraints on the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.errors import InternalError, ModelError
from penstock.ir.graph import Graph
from penstock.ir.verify import verify
from penstock.passes.accumulate import accumulate
from penstock.passes.cleaning import drop_dead, fold_constants, free_identities, share_constants
from penstock.passes.folding import fold_dilation, fold_padding, fuse_activation
from penstock.passes.slices import slice_parts, slice_rows
from penstock.passes.states import own_results, queue_sections, queues
from penstock.passes.tabulate import tabulate

Pass = Callable[[Graph], Graph]

# The passes of the stage `simplify`, before accelerators claim nodes.
PASSES: tuple[Pass, ...] = (
    free_identities,
    fold_constants,  # after free_identities, which leaves views of constants
    slice_parts,
    slice_rows,  # after free_identities, which leaves views
    fold_constants,  # again: the part that a slice reads may be a constant
    fold_dilation,
    fold_padding,  # after fold_dilation, which leaves borders of images
    fuse_activation,
    share_constants,
    tabulate,  # after `fuse_activation`: a table is no operator that takes a clamp
    drop_dead,  # last: the passes above leave nodes without readers
)

# The first passes of the stage `assign`, after offload.
STATES: tuple[Pass, ...] = (
    own_results,  # before `queues`: results that are old elements of a state copy it
    queues,  # after offload: accelerators may claim concatenations and slices of a state
    queue_sections,
    drop_dead,  # last: a queue leaves the shift of its state without readers
)

# Optional passes of the stage `assign`, between `STATES` and the assignment to the processor.
ACCUMULATION: tuple[Pass, ...] = (
    accumulate,  # after offload: patterns of accelerators match reductions as models state them
    drop_dead,  # last: `accumulate` bypasses views
)


def run_passes(graph: Graph, passes: Sequence[Pass]) -> Graph:
    """Run passes in order and verify the graph after each.

    Raises InternalError if a pass leaves an invalid graph: the model was valid."""
    for rewrite in passes:
        graph = rewrite(graph)
        try:
            verify(graph)
        except ModelError as error:
            name = getattr(rewrite, "__name__", type(rewrite).__name__)
            raise InternalError(
                "passes-001",
                f"pass {name} leaves an invalid graph: {error.what}",
                where=error.where,
                why=error.why,
            ) from error
    return graph
