"""Options: parameters of scheduling and placement."""

from __future__ import annotations

from dataclasses import fields

from penstock.frozen import frozen
from penstock.setting import COUNT, NUMBER, SEARCH, SWITCH, TEXT, Setting, declared, settings_of

AUTO, CASCADES, RESIDENT, LEAST, BEST = "auto", "cascades", "resident", "least", "best"
CYCLES, BYTES = "cycles", "bytes"

# They are here, and not with the algorithms, so that a help text does not import these.
ORDER_NAMES = ("asap", "alap", "dfs", "reverse", "bfs", "file")
"""The keys of `strategies.ORDERS`."""
INNER_ORDER_NAMES = ("trace_back", "dfs", "bfs", "circular", "best")
"""The keys of `inside.ORDERS_INSIDE`."""
STRATEGY_NAMES = ("layer", "greedy", "paper", "best")
"""The keys of `strategies.STRATEGIES`."""


def _switch(default: bool, help: str) -> bool:
    return declared(default, Setting(SWITCH, help, group=SEARCH))


def _count(default: int, least: int, help: str) -> int:
    return declared(default, Setting(COUNT, help, group=SEARCH, least=least))


def _number(default: float, least: float, help: str) -> float:
    return declared(default, Setting(NUMBER, help, group=SEARCH, least=least))


def _name(default: str, names: tuple[str, ...], help: str) -> str:
    return declared(default, Setting(TEXT, help, group=SEARCH, names=names))


@frozen
class Options:
    """Options of scheduling and placement; each field's metadata declares it."""

    accumulate: bool = _switch(
        True,
        "Accumulate reductions row by row, so that their whole input need not be in memory at "
        "once.",
    )
    alternatives: bool = _switch(
        True,
        "Also consider equivalent networks that may need less memory or fewer cycles: with whole "
        "reductions, with rows and columns of wide images exchanged, with products of matrices "
        "computed row by row, and with hidden channels computed in groups.",
    )
    keep_input: bool = _switch(
        False,
        "Preserve the input buffer during a run; otherwise, its memory is reused once the input "
        "has been read.",
    )
    max_parts: int = _count(
        64,
        1,
        "Largest number of parts in a cascade; a part is one or more nodes that run as a unit, "
        "usually one layer.",
    )
    max_region_parts: int = _count(
        6,
        1,
        "Largest number of parts in a cascade if access times depend on the memory region, so that "
        "the search also assigns tensors to regions.",
    )
    max_region_work: int = _count(
        100_000,
        0,
        "Limit on the number of memory assignments of cascades that the search tries for each "
        "order with a free choice of region for every intermediate tensor. Beyond, it only chooses "
        "regions for tensors that a single cascade uses.",
    )
    partition: str = _name(
        AUTO,
        (AUTO, CASCADES, RESIDENT, *STRATEGY_NAMES),
        "Which tensors to store outside the first arena memory of the target (the one "
        "with inputs and outputs), if there is another. cascades: chosen together with the "
        "cascades, for speed. resident: every tensor that fits. Or a strategy that divides the "
        "network into groups of whole layers, and stores there the tensors that only one group "
        "uses: layer, greedy, paper. best: the fastest of all, and of further groups. auto: best "
        "without tiles, or cascades if the network has more than 150 parts.",
    )
    objective: str = _name(
        CYCLES,
        (CYCLES, BYTES),
        "What the groups of --partition minimise: cycles, or the bytes that pass through main "
        "memory.",
    )
    tiles: bool = _switch(
        True,
        "With a grouping strategy of --partition, let an accelerator run groups tile by tile if "
        "their tensors do not fit on the chip as a whole.",
    )
    inside: str = _name(
        BEST,
        INNER_ORDER_NAMES,
        "Execution order within a group, with a grouping strategy of --partition: "
        f"{', '.join(INNER_ORDER_NAMES)}. Groups that do not fit in it are not formed.",
    )
    order: str = _name(
        LEAST,
        (LEAST, *ORDER_NAMES),
        "Execution orders that the search divides into cascades. least: two orders, "
        "the one with the least peak memory and the model file's. Or a single order: "
        f"{', '.join(ORDER_NAMES)}.",
    )
    max_stripe: int = _count(
        16,
        1,
        "Largest number of output rows that one kernel call computes in a cascade. The search "
        "tries powers of two and, with accelerators, equal shares of a tensor's rows.",
    )
    prune_by_shorter: bool = _switch(
        True,
        "Discard a cascade if dividing it into shorter ones needs no more memory and no more call "
        "overhead.",
    )
    max_recompute: float = _number(
        2.0,
        1,
        "Largest ratio of executed to necessary multiply-accumulates. Above 1, cascades may "
        "compute some columns or rows of intermediate tensors several times, which needs less "
        "memory: in bands (intervals of columns) and in chains. 1 disables this.",
    )
    slack: float = _number(
        0.02,
        0,
        "Also assign addresses to schedules whose live bytes exceed those of the Pareto front by "
        "at most this fraction.",
    )
    order_states: int = _count(
        20_000, 0, "Limit on the number of states in the search for an execution order."
    )
    placement_nodes: int = _count(
        20_000,
        0,
        "Limit on the total number of search nodes of the placement search; a node is one attempt "
        "to place a block.",
    )
    placement_work: float = _number(
        0.5,
        0,
        "Work limit of the placement solver (OR-Tools CP-SAT, which the extra `optimal` installs), "
        "in its deterministic time units, not wall-clock time.",
    )

    def __repr__(self) -> str:
        """Show only the fields that differ from their defaults."""
        pairs = ((f.name, getattr(self, f.name), f.default) for f in fields(self))
        shown = (f"{name}={value!r}" for name, value, default in pairs if value != default)
        return f"Options({', '.join(shown)})"

    def __post_init__(self) -> None:
        for one in settings_of(Options):
            one.check(getattr(self, one.path[0]))


DEFAULTS = Options()
QUICK = Options(alternatives=False, max_parts=1, placement_nodes=100)
"""Options that plan fast; results do not depend on them."""
