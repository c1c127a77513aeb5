"""Options: everything that steers the search, in one record; the command line is made from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from penstock.errors import UsageError

_LEAST = {
    "max_parts": 1,
    "max_region_parts": 1,
    "max_stripe": 1,
    "slack": 0,
    "order_states": 0,
    "placement_nodes": 0,
    "placement_work": 0,
}
"""The least value of each option that is a limit."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of scheduling and placement.  The metadata is the sentence that help shows."""

    accumulate: bool = field(
        default=True,
        metadata={
            "help": "Let a reduction take rows one by one, so that they need not all be there."
        },
    )
    copies: bool = field(
        default=True, metadata={"help": "Let a copy engine copy constants into faster memory."}
    )
    double_buffering: bool = field(
        default=True, metadata={"help": "Let it copy while the cascade before runs."}
    )
    keep_input: bool = field(
        default=False, metadata={"help": "Keep the input: run must not overwrite it."}
    )
    max_parts: int = field(default=64, metadata={"help": "Most parts of a cascade."})
    max_region_parts: int = field(
        default=6,
        metadata={"help": "Most parts of a cascade where memories are to be chosen, too."},
    )
    max_stripe: int = field(
        default=16, metadata={"help": "Most rows of a stripe; 1, 2, 4, .. up to it are tried."}
    )
    prune_by_shorter: bool = field(
        default=True,
        metadata={
            "help": "Give up a cascade that needs no less than shorter ones of no more calls."
        },
    )
    slack: float = field(
        default=0.02,
        metadata={"help": "Place also what a faster schedule beats by this fraction at most."},
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
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not least <= value < math.inf:
                raise UsageError(
                    "usage-016",
                    f"the limit is {value}, must be a number from {least} up",
                    where=f"--{name.replace('_', '-')}",
                    help="`penstock options` lists the options with their defaults",
                )


DEFAULTS = Options()
