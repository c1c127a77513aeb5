"""Options: everything that steers the search, in one record; the command line is made from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

from penstock.errors import UsageError
from penstock.scheduling.grouping.inside import ORDERS_INSIDE
from penstock.scheduling.grouping.orders import ORDERS
from penstock.scheduling.grouping.strategies import STRATEGIES

CASCADES, RESIDENT, LEAST, BEST = "cascades", "resident", "least", "best"
_LEAST = {
    "max_parts": 1,
    "max_region_parts": 1,
    "max_free_parts": 0,
    "max_stripe": 1,
    "slack": 0,
    "order_states": 0,
    "placement_nodes": 0,
    "placement_work": 0,
}
"""The least value of each option that is a limit."""
_NAMES = {
    "partition": (CASCADES, RESIDENT, *STRATEGIES),
    "inside": tuple(ORDERS_INSIDE),
    "order": (LEAST, *ORDERS),
}
"""What an option that names something may name."""


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
    max_free_parts: int = field(
        default=150,
        metadata={
            "help": "Most parts of a network whose tensors may live in any memory; of larger ones, "
            "those alone that a cascade or a group keeps to itself."
        },
    )
    partition: str = field(
        default=CASCADES,
        metadata={
            "help": "What a second memory holds: what cascades keep or hand on, as is fastest; "
            "resident: every tensor that finds room; or what groups of whole layers keep to "
            f"themselves, by a strategy: {', '.join(STRATEGIES)}."
        },
    )
    inside: str = field(
        default=BEST,
        metadata={"help": f"How the parts of a group are ordered: {', '.join(ORDERS_INSIDE)}."},
    )
    order: str = field(
        default=LEAST,
        metadata={
            "help": "The order that is cut into cascades: that of least memory, and the file's; or "
            f"one by name: {', '.join(ORDERS)}."
        },
    )
    max_stripe: int = field(
        default=16,
        metadata={
            "help": "Most rows of a stripe; 1, 2, 4, .. up to it are tried; beside accelerators "
            "equal shares of tensors, too."
        },
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

    def __repr__(self) -> str:
        """Only the fields that differ from their defaults."""
        pairs = ((f.name, getattr(self, f.name), f.default) for f in fields(self))
        shown = (f"{name}={value!r}" for name, value, default in pairs if value != default)
        return f"Options({', '.join(shown)})"

    def __post_init__(self) -> None:
        for name, known in _NAMES.items():
            if getattr(self, name) not in known:
                raise UsageError(
                    "usage-056",
                    f"there is no {name} {getattr(self, name)!r}",
                    where=f"--{name}",
                    help=f"name one of {', '.join(known)}",
                )
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
