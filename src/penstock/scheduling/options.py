"""Options: everything that steers the search, in one record; the command line is made from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from penstock.errors import UsageError


@dataclass(frozen=True, slots=True)
class Options:
    """Options of scheduling and placement.  The metadata is the sentence that help shows."""

    keep_input: bool = field(
        default=False, metadata={"help": "Keep the input: run must not overwrite it."}
    )
    order_states: int = field(
        default=20_000,
        metadata={"help": "Most states that the search for an execution order visits."},
    )
    placement_nodes: int = field(
        default=20_000,
        metadata={"help": "Most attempts of the placement search to lay a block."},
    )
    placement_work: float = field(
        default=0.5,
        metadata={"help": "Most work of the placement solver, in its deterministic seconds."},
    )

    def __post_init__(self) -> None:
        for name in ("order_states", "placement_nodes", "placement_work"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise UsageError(
                    "usage-016",
                    f"the limit is {value}, must be a number from 0 up",
                    where=f"--{name.replace('_', '-')}",
                )


DEFAULTS = Options()
