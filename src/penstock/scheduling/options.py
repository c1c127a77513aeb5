"""Options: parameters of scheduling and placement, from which command-line options are made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

from penstock.errors import UsageError, did_you_mean
from penstock.scheduling.grouping.names import INNER_ORDER_NAMES, ORDER_NAMES, STRATEGY_NAMES

CASCADES, RESIDENT, LEAST, BEST = "cascades", "resident", "least", "best"
CYCLES, BYTES = "cycles", "bytes"
_LEAST = {
    "max_parts": 1,
    "max_region_parts": 1,
    "max_region_work": 0,
    "max_stripe": 1,
    "max_recompute": 1,
    "slack": 0,
    "order_states": 0,
    "placement_nodes": 0,
    "placement_work": 0,
}
"""Minimum allowed value of each numeric option."""
_NAMES = {
    "partition": (CASCADES, RESIDENT, *STRATEGY_NAMES),
    "inside": INNER_ORDER_NAMES,
    "objective": (CYCLES, BYTES),
    "order": (LEAST, *ORDER_NAMES),
}
"""The allowed values of each option that selects by name."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of scheduling and placement; each field's metadata holds its help text."""

    accumulate: bool = field(
        default=True,
        metadata={
            "help": "Accumulate reductions row by row, so that their whole input need not be in "
            "memory at once."
        },
    )
    alternatives: bool = field(
        default=True,
        metadata={
            "help": "Also consider equivalent networks that may need less memory: with rows and "
            "columns of wide images exchanged, and with hidden channels computed in groups."
        },
    )
    copies: bool = field(
        default=True, metadata={"help": "Let a copy engine prefetch constants into faster memory."}
    )
    double_buffering: bool = field(
        default=True,
        metadata={
            "help": "Prefetch the constants of a cascade while the previous cascade runs. A "
            "cascade is a sequence of layers that run interleaved, row by row."
        },
    )
    row_copies: bool = field(
        default=True,
        metadata={
            "help": "Let a copy engine copy rows of intermediate tensors and inputs from slow to "
            "faster memory, where a cascade reads them."
        },
    )
    row_double_buffering: bool = field(
        default=True,
        metadata={"help": "Overlap copies of rows with the computation before they are read."},
    )
    row_copies_out: bool = field(
        default=True,
        metadata={
            "help": "Also let cascades write rows to faster memory, from which a copy engine "
            "copies them to slow memory during the next call. Only with `--row-copies` and "
            "`--row-double-buffering`."
        },
    )
    keep_input: bool = field(
        default=False,
        metadata={
            "help": "Preserve the input buffer during a run; otherwise, its memory is reused once "
            "the input has been read."
        },
    )
    max_parts: int = field(
        default=64,
        metadata={
            "help": "Largest number of parts in a cascade; a part is one or more nodes that run as "
            "a unit, usually one layer."
        },
    )
    max_region_parts: int = field(
        default=6,
        metadata={
            "help": "Largest number of parts in a cascade if access times depend on the memory "
            "region, so that the search also assigns tensors to regions."
        },
    )
    max_region_work: int = field(
        default=100_000,
        metadata={
            "help": "Limit on the number of memory assignments of cascades that the search tries "
            "for each order with a free choice of region for every intermediate tensor. Beyond, it "
            "only chooses regions for tensors that a single cascade uses."
        },
    )
    partition: str = field(
        default=CASCADES,
        metadata={
            "help": "Which tensors to store outside the first arena memory of the target (the one "
            "with inputs and outputs), if there is another. cascades: chosen together with the "
            "cascades, for speed. resident: every tensor that fits. Or a strategy that divides the "
            "network into groups of whole layers, and stores there the tensors that only one group "
            f"uses: {', '.join(STRATEGY_NAMES)}."
        },
    )
    objective: str = field(
        default=CYCLES,
        metadata={
            "help": "What the groups of --partition minimise: cycles, or the bytes that pass "
            "through main memory."
        },
    )
    tiles: bool = field(
        default=True,
        metadata={
            "help": "With a grouping strategy of --partition, let an accelerator run groups tile "
            "by tile if their tensors do not fit on the chip as a whole."
        },
    )
    inside: str = field(
        default=BEST,
        metadata={
            "help": "Execution order within a group, with a grouping strategy of --partition: "
            f"{', '.join(INNER_ORDER_NAMES)}."
        },
    )
    order: str = field(
        default=LEAST,
        metadata={
            "help": "Execution orders that the search divides into cascades. least: two orders, "
            "the one with the least peak memory and the model file's. Or a single order: "
            f"{', '.join(ORDER_NAMES)}."
        },
    )
    max_stripe: int = field(
        default=16,
        metadata={
            "help": "Largest number of output rows that one kernel call computes in a cascade. The "
            "search tries powers of two and, with accelerators, equal shares of a tensor's rows."
        },
    )
    prune_by_shorter: bool = field(
        default=True,
        metadata={
            "help": "Discard a cascade if dividing it into shorter ones needs no more memory and "
            "no more call overhead."
        },
    )
    max_recompute: float = field(
        default=2.0,
        metadata={
            "help": "Largest ratio of executed to necessary multiply-accumulates. Above 1, "
            "cascades may compute some columns or rows of intermediate tensors several times, "
            "which needs less memory: in bands (intervals of columns) and in chains. 1 disables "
            "this."
        },
    )
    slack: float = field(
        default=0.02,
        metadata={
            "help": "Also assign addresses to schedules whose live bytes exceed those of the "
            "Pareto front by at most this fraction."
        },
    )
    order_states: int = field(
        default=20_000,
        metadata={"help": "Limit on the number of states in the search for an execution order."},
    )
    placement_nodes: int = field(
        default=20_000,
        metadata={
            "help": "Limit on the total number of search nodes of the placement search; a node is "
            "one attempt to place a block."
        },
    )
    placement_work: float = field(
        default=0.5,
        metadata={
            "help": "Work limit of the placement solver (OR-Tools CP-SAT, which the extra "
            "`optimal` installs), in its deterministic time units, not wall-clock time."
        },
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
                    help=f"{did_you_mean(getattr(self, name), known)}use one of "
                    + ", ".join(known),
                )
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not isinstance(value, int | float) or not least <= value < math.inf:
                raise UsageError(
                    "usage-016",
                    f"the limit is {value!r}, must be at least {least}",
                    where=f"--{name.replace('_', '-')}",
                    help="`penstock options` lists the options with their defaults",
                )


DEFAULTS = Options()
