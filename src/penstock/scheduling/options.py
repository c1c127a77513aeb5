"""Options: the parameters of scheduling and placement, from which command-line options are made."""

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
"""Minimum allowed value of each numeric option."""
_NAMES = {
    "partition": (CASCADES, RESIDENT, *STRATEGIES),
    "inside": tuple(ORDERS_INSIDE),
    "order": (LEAST, *ORDERS),
}
"""The allowed values of each option that selects by name."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of scheduling and placement; each field's metadata holds its help text."""

    accumulate: bool = field(
        default=True,
        metadata={
            "help": "Accumulate reductions row by row, so that their input need not be live whole."
        },
    )
    copies: bool = field(
        default=True, metadata={"help": "Let a copy engine prefetch constants to faster memory."}
    )
    double_buffering: bool = field(
        default=True, metadata={"help": "Overlap prefetches with the previous cascade."}
    )
    keep_input: bool = field(
        default=False, metadata={"help": "Keep the input buffer intact during a run."}
    )
    max_parts: int = field(
        default=64, metadata={"help": "Limit on the number of parts in a cascade."}
    )
    max_region_parts: int = field(
        default=6,
        metadata={"help": "The same limit where the search also assigns memory regions."},
    )
    max_free_parts: int = field(
        default=150,
        metadata={
            "help": "Limit on the parts of a network for a free choice of memory regions; in "
            "larger networks, only inner tensors of cascades and groups leave the first region."
        },
    )
    partition: str = field(
        default=CASCADES,
        metadata={
            "help": "Tensors in a second memory. cascades: chosen with the cascades, for speed; "
            "resident: every tensor that fits; or the inner tensors of groups of whole layers, "
            f"by grouping strategy: {', '.join(STRATEGIES)}."
        },
    )
    inside: str = field(
        default=BEST,
        metadata={"help": f"Order of the parts in a group: {', '.join(ORDERS_INSIDE)}."},
    )
    order: str = field(
        default=LEAST,
        metadata={
            "help": "Execution orders to split into cascades. least: the one of least memory, and "
            f"the file's; or one by name: {', '.join(ORDERS)}."
        },
    )
    max_stripe: int = field(
        default=16,
        metadata={
            "help": "Limit on the rows of a stripe. The search tries powers of two and, with "
            "accelerators, equal shares of a tensor's rows."
        },
    )
    prune_by_shorter: bool = field(
        default=True,
        metadata={"help": "Prune cascades that shorter ones with no more calls match in memory."},
    )
    slack: float = field(
        default=0.02,
        metadata={"help": "Also place schedules within this fraction of the Pareto front."},
    )
    order_states: int = field(
        default=20_000,
        metadata={"help": "Limit on the number of states in the search for an execution order."},
    )
    placement_nodes: int = field(
        default=20_000,
        metadata={
            "help": "Limit on the number of attempts to place a block in the placement search."
        },
    )
    placement_work: float = field(
        default=0.5,
        metadata={"help": "Budget of the placement solver, in its deterministic seconds."},
    )

    def __repr__(self) -> str:
        """Show only the fields that differ from their defaults."""
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
                    help=f"use one of {', '.join(known)}",
                )
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not least <= value < math.inf:
                raise UsageError(
                    "usage-016",
                    f"the limit is {value}, must be at least {least}",
                    where=f"--{name.replace('_', '-')}",
                    help="`penstock options` lists the options with their defaults",
                )


DEFAULTS = Options()
