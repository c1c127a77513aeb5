"""OpStrategy: the implementations of an operator, as a backend describes them.

Source: TVM RFC 0060, _register_operator_strategy; costs, conditions and tables are additions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from penstock.backends.accelerator import AcceleratorTarget
from penstock.backends.description import backend_code, is_name, require_callable
from penstock.backends.kernel_call import Compute
from penstock.backends.offloaded import Offloaded
from penstock.errors import BackendError
from penstock.frozen import frozen
from penstock.hardware.target import Target
from penstock.ir.breakdown import Breakdown, Filling, PlacedCall
from penstock.ir.element_types import ElementTypes
from penstock.ir.op import ConstantPrefetch
from penstock.ir.tensor import Array, TensorType
from penstock.tiling.least_traffic import LoopOrder
from penstock.tiling.nest import TILER_METHODS, Tiler

# Roofline model: the default cost of an accelerator call.
#
# Source: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model
# for multicore architectures", Communications of the ACM 52(4), 2009.


DEFAULT_MACS_PER_CYCLE = 1.0
ABOVE_0 = 1e-9  # Smallest valid value of parameters that must be positive.


@frozen
class Roofline:
    """Cost model of a call: `cycles_per_call` plus the larger of compute time and memory time.

    Compute time is max(multiply-accumulates, other operations on elements) / `macs_per_cycle`.
    Memory time is (bytes of inputs, constants and output) / `bytes_per_cycle`."""

    macs_per_cycle: float
    bytes_per_cycle: float
    cycles_per_call: float

    @staticmethod
    def of(chip: Target) -> Roofline:
        """Return the default model for a chip.

        The model assumes one multiply-accumulate per cycle, and the bandwidth of the chip's memory
        for the arena, which holds the activations."""
        bandwidth = chip.memory_for("arena").bandwidth_bytes_per_cycle
        return Roofline(DEFAULT_MACS_PER_CYCLE, bandwidth, 0.0)

    def check(self, where: str) -> None:
        """Raise BackendError unless the parameters of the model are valid, finite numbers.

        `macs_per_cycle` and `bytes_per_cycle` must be above 0, and `cycles_per_call` at least 0."""
        figures = (
            ("macs_per_cycle", self.macs_per_cycle, ABOVE_0),
            ("bytes_per_cycle", self.bytes_per_cycle, ABOVE_0),
            ("cycles_per_call", self.cycles_per_call, 0),
        )
        for name, value, least in figures:
            if not is_figure(value, least):
                raise BackendError(
                    "backend-040",
                    f"{name} of the roofline is {value!r}, must be a number "
                    + ("above 0" if least else "of at least 0"),
                    where=where,
                    help="take it from the accelerator's data sheet, in units of its clock",
                )

    def cycles(self, offloaded: Offloaded, rows: int) -> float:
        """Return the cycles of a call that computes `rows` rows of the output."""
        work = offloaded.work(rows)
        operations = max(work.macs, work.elements)
        longest = max(
            operations / self.macs_per_cycle, offloaded.bytes(rows) / self.bytes_per_cycle
        )
        return longest + self.cycles_per_call


def is_figure(value: object, least: float) -> bool:
    """Return whether `value` is a finite number of at least `least`; Booleans are not numbers.

    >>> is_figure(0.5, 0), is_figure(float("nan"), 0), is_figure("8", 0), is_figure(True, 0)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= least


ALIGNMENTS = (1, 2, 4, 8, 16, 32, 64)  # Row alignments that a kernel may require, in bytes.
CACHE_LINES = (1, 16, 32, 64, 128)  # Sizes of cache lines that a kernel may state, in bytes.

# Returns the cycles of a call that computes the given number of output rows.
#
# A Breakdown also contains the cycles of each hardware resource.
CostFunction = Callable[[Offloaded, int], float | Breakdown]

# Returns the bytes that a call for output rows [first, end) moves, by name of the data moved.
TrafficFunction = Callable[[Offloaded, int, int], Mapping[str, int]]

# How a call is divided into tiles: a tiler, a loop order, or a function that returns either.
Schedule = Tiler | Sequence[str] | Callable[[Offloaded], Tiler | Sequence[str]]

# Returns arrays that are computed at compile time, by name.
#
# An example is weights in the accelerator's layout.
TablesFunction = Callable[[Offloaded], Mapping[str, Array]]

ScratchFunction = Callable[[Offloaded], int]  # Returns the bytes of working memory of a call.

# Returns the constants that are prefetched into the memory that holds tensors; None for none.
PrefetchFunction = Callable[[Offloaded], ConstantPrefetch | None]

# Returns the cost of a call whose tensors have addresses.
PlacedCostFunction = Callable[[Offloaded, PlacedCall], Breakdown]

# Returns the working memory in bytes of a call whose tensors have addresses.
PlacedScratchFunction = Callable[[Offloaded, PlacedCall], int]

# Returns the cost of a call during which constants are prefetched.
#
# It receives the number of output rows that the call computes, and the prefetches.
FilledCostFunction = Callable[[Offloaded, int, tuple[Filling, ...]], Breakdown]

# A strategy function (attrs, inputs, out_type, target) -> OpStrategy, as in the RFC.
StrategyFunction = Callable[
    [Mapping[str, object], Sequence[TensorType], TensorType, AcceleratorTarget], "OpStrategy"
]


@frozen
class DescribedImplementation:
    """An implementation of an operator on an accelerator, as a backend describes it.

    All functions except `compute` receive the composite, as an Offloaded, as first argument.

    compute: returns the commands of a call, given a KernelCall.
    cost: returns the cycles of a call, given its number of output rows; None for the roofline
        model.
    traffic: returns the bytes that a call for output rows [first, end) moves, by kind of data,
        given first and end; None if not stated.
    condition: True if the implementation can run the composite, else False or the reason.
    tables: arrays computed at compile time, by name, or a function that returns them.
    by_rows: True if a call may compute any interval of rows, False if only the whole output.
    by_columns: True if inputs and output may also be columns of wider tensors.
    scratch_bytes: working memory of a call, or a function that returns its size.
    folded: indices of the main operator's constant inputs that no command reads, since tables
        replace them.
    alignment_bytes: rows of inputs and output, and scratch, start at multiples of this number of
        bytes.
    cache_line_bytes: memories of tensors begin and end at multiples of this number of bytes.
    placed_scratch: returns the working memory of a call whose tensors have addresses; None if the
        addresses do not matter.
    scattered_scratch_bytes: returns the most that `placed_scratch` may return.
    prefetch: returns the constants to copy before the first call; None for no copy.
    placed_cost: returns the cost of a call whose tensors have addresses; None if not stated.
    filled_cost: estimates, before tensors have addresses, the cost of a call during which constants
        are prefetched, for this call or a later one; None if not stated.
    element_types: supported types of the composite or of its main operator, or those of each
        operator by name; None for int8, and int32 for biases.
    schedule: a tiler, a loop order, or a function that returns either; None if not stated.
    even_rows: True if the placed cost is less where the rows of a tensor are evenly spaced.
    scratch_memory: the memory of the accelerator that holds working memory; "" for RAM."""

    name: str
    compute: Compute
    cost: CostFunction | None
    traffic: TrafficFunction | None
    condition: bool | str
    tables: Mapping[str, Array] | TablesFunction
    by_rows: bool
    scratch_bytes: int | ScratchFunction
    folded: tuple[int, ...]
    alignment_bytes: int
    prefetch: PrefetchFunction | None
    placed_cost: PlacedCostFunction | None = None
    filled_cost: FilledCostFunction | None = None
    element_types: ElementTypes | Mapping[str, ElementTypes] | None = None
    schedule: Schedule | None = None
    by_columns: bool = False
    even_rows: bool = False
    scratch_memory: str = ""
    cache_line_bytes: int = 1
    placed_scratch: PlacedScratchFunction | None = None
    scattered_scratch_bytes: ScratchFunction | None = None


class OpStrategy:
    """A container to which a strategy function adds implementations, and which it returns.

    Source: TVM RFC 0060.

    >>> strategy = OpStrategy()
    >>> strategy.add_implementation(lambda call: (), name="npu.conv2d", cost=lambda o, rows: 9)
    >>> [one.name for one in strategy.implementations]
    ['npu.conv2d']
    """

    def __init__(self) -> None:
        self._described: list[DescribedImplementation] = []

    @property
    def implementations(self) -> tuple[DescribedImplementation, ...]:
        """The implementations in the order in which they were added."""
        return tuple(self._described)

    def add_implementation(
        self,
        compute: Compute,
        schedule: Schedule | None = None,
        *,
        name: str,
        cost: CostFunction | None = None,
        traffic: TrafficFunction | None = None,
        condition: bool | str = True,
        tables: Mapping[str, Array] | TablesFunction | None = None,
        by_rows: bool = False,
        scratch_bytes: int | ScratchFunction = 0,
        folded: Sequence[int] = (),
        alignment_bytes: int = 1,
        prefetch: PrefetchFunction | None = None,
        placed_cost: PlacedCostFunction | None = None,
        even_rows: bool = False,
        filled_cost: FilledCostFunction | None = None,
        element_types: ElementTypes | Mapping[str, ElementTypes] | None = None,
        by_columns: bool = False,
        scratch_memory: str = "",
        cache_line_bytes: int = 1,
        placed_scratch: PlacedScratchFunction | None = None,
        scattered_scratch_bytes: ScratchFunction | None = None,
    ) -> None:
        """Add an implementation of the operator.

        Of several implementations that can run a node, the one with the least cost for all rows of
        the output runs (the first of several with equal cost).  This choice precedes the search for
        schedules and holds for every stripe, even if another implementation computes a few rows
        faster; an implementation may instead choose by `call.rows` itself.

        `compute`: a function of a KernelCall that returns the commands of the call.
        `schedule`: how a call is divided into tiles: a tiler, the names of axes as the order of the
            loops (outermost first), or a function of Offloaded that returns either.  `compute`
            obtains it from `call.tiler(default)`.  A tiler that is registered for the operator
            takes precedence.
        `cost`: a function of Offloaded and the number of output rows of a call.  It returns the
            cycles of the call, or a Breakdown of them by resource for the command
            `penstock profile`.  By default, the roofline model applies.
        `traffic`: a function of Offloaded and two integers, first and end.  It returns the bytes
            that a call for output rows [first, end) moves, by kind of data (names that the backend
            chooses, such as "weights"), for `penstock profile`.
        `condition`: True if the implementation can run the composite that was passed to the
            strategy function; otherwise False or the reason as a string.
        `tables`: arrays computed at compile time, or a function of Offloaded that returns them.
            Commands refer to them by `call.table(name)`.
        `by_rows`: True if a call can compute any interval of rows, [call.first, call.end).  Several
            layers can then run stripe by stripe in turn (a cascade).  The commands must access rows
            by `operand.row`.  False if a call computes the whole output from whole inputs.
        `by_columns`: True if inputs and output may be columns of wider tensors.  The distance
            between rows then exceeds their size, so commands must access every row by
            `operand.row`.  With `by_rows`, cascades can then run in bands of columns, which need
            less memory.  The strategy is called again for the node cropped to these columns.
        `scratch_bytes`: bytes of working memory in RAM (`call.scratch`), or a function of Offloaded
            that returns them.  If the memory is not available, the implementation with the least
            working memory runs.
        `placed_scratch`: a function of Offloaded and a PlacedCall, if calls need more working
            memory where the rows of their tensors are scattered.  It returns the bytes that the
            call needs.  The compiler first places tensors with `scratch_bytes`, and again with more
            if a call needs more at the addresses found.
        `scattered_scratch_bytes`: a function of Offloaded that returns the most that
            `placed_scratch` may return; both are stated, or neither.
        `scratch_memory`: the name of a memory of the accelerator that holds the working memory,
            instead of RAM.
        `folded`: indices of the main operator's constant inputs that no command reads, because
            tables replace them.  Their elements are then not stored in flash: without `folded`, an
            implementation whose table contains the biases stores them twice.
        `alignment_bytes`: rows of inputs and output, and scratch, start at multiples of this
            number of bytes.
        `cache_line_bytes`: memories of tensors begin and end at multiples of this number of bytes,
            so that the driver may write back or invalidate all cache lines of a memory.
        `prefetch`: a function of Offloaded that returns a ConstantPrefetch, or None for none.
            Before the first call of the kernel, possibly while other kernels run, the accelerator
            copies these constants into the memory that holds tensors.  `call.prefetched` is the
            address of the copy.  The compiler prefers an implementation that prefetches if the copy
            fits and saves cycles.
        `placed_cost`: a function of Offloaded and a PlacedCall.  It returns the cost of a call
            whose tensors have addresses, including the copies that the call makes and the wait
            states of the chip's memories (`target.chip.memories`); `cost` includes them, too.
            State it if the cost depends on the addresses.
        `even_rows`: True if the placed cost is less where the rows of a tensor are evenly spaced;
            rows of cascades are then placed so if possible.
        `filled_cost`: a function of Offloaded, a number of output rows, and the prefetches (a tuple
            of Fillings).  It returns the cost of a call during which constants are prefetched, for
            this call or a later one.  The search for schedules calls it, before tensors have
            addresses.
        `element_types`: the supported element types.  By default they are int8, and int32 for
            biases.  An `ElementTypes` states those of the composite's inputs and output, or those
            of the main operator's, where all other operators compute on int8.  A mapping from
            names of operators to `ElementTypes` states those of each operator by itself, and the
            default holds for the others.

        >>> def conv2d_strategy(attrs, inputs, out_type, target):
        ...     strategy = OpStrategy()
        ...     strategy.add_implementation(
        ...         lambda call: [],  # the commands of the call
        ...         name="npu.conv2d",
        ...         cost=lambda offloaded, rows: 100 + offloaded.macs(rows) / 64,
        ...         condition=out_type.rank == 4 or "the output is no image",
        ...     )
        ...     return strategy

        Raises BackendError if an argument has a wrong type or an invalid value."""
        where = f'implementation "{name}"'
        require_callable(compute, "compute function", "a KernelCall", where)
        if cost is not None:
            require_callable(cost, "cost function", "an Offloaded and a number of rows", where)
        if traffic is not None:
            require_callable(traffic, "traffic function", "an Offloaded and two rows", where)
        if prefetch is not None:
            require_callable(prefetch, "prefetch function", "an Offloaded", where)
        if placed_cost is not None:
            facts = "an Offloaded and a PlacedCall"
            require_callable(placed_cost, "placed cost function", facts, where)
        if filled_cost is not None:
            facts = "an Offloaded, a number of rows and Fillings"
            require_callable(filled_cost, "filled cost function", facts, where)
        if placed_scratch is not None:
            facts = "an Offloaded and a PlacedCall"
            require_callable(placed_scratch, "placed scratch function", facts, where)
        taken = [one.name for one in self._described]
        problem = _argument_problem(name, condition, scratch_bytes, taken) or _folded_problem(
            folded
        )
        problem = problem or schedule_problem(schedule)
        if alignment_bytes not in ALIGNMENTS:
            problem = f"alignment_bytes is {alignment_bytes!r}, must be one of {ALIGNMENTS}"
        if type(cache_line_bytes) is not int or cache_line_bytes not in CACHE_LINES:
            problem = f"cache_line_bytes is {cache_line_bytes!r}, must be one of {CACHE_LINES}"
        if problem:
            raise _invalid(where, problem)
        self._described.append(
            DescribedImplementation(
                name,
                compute,
                cost,
                traffic,
                condition,
                tables or {},
                by_rows,
                scratch_bytes,
                tuple(folded),
                alignment_bytes,
                prefetch,
                placed_cost,
                filled_cost,
                element_types,
                schedule,
                by_columns,
                even_rows,
                scratch_memory,
                cache_line_bytes,
                placed_scratch,
                scattered_scratch_bytes,
            )
        )


def _argument_problem(
    name: object, condition: object, scratch_bytes: object, taken: list[str]
) -> str:
    if not is_name(name):
        return f"the name is {name!r}, must be a text"
    if name in taken:
        return "there is another of this name in the strategy"
    if not isinstance(condition, bool | str):
        return f"the condition is {condition!r}, must be True, False, or a string with the reason"
    if not callable(scratch_bytes) and (type(scratch_bytes) is not int or scratch_bytes < 0):
        return f"scratch_bytes is {scratch_bytes!r}, must be a number of bytes"
    return ""


def _folded_problem(folded: object) -> str:
    is_right = isinstance(folded, Sequence) and all(type(k) is int for k in cast(Any, folded))
    return "" if is_right else f"folded is {folded!r:.60}, must be a sequence of numbers of inputs"


def is_tiler(value: object) -> bool:
    """Return whether an object has the methods of a tiler."""
    return all(callable(getattr(value, method, None)) for method in TILER_METHODS)


def schedule_problem(schedule: object) -> str:
    """Return why the argument `schedule` of `add_implementation` is invalid; "" if it is valid."""
    if schedule is None or is_tiler(schedule) or callable(schedule):
        return ""
    is_order = isinstance(schedule, list | tuple) and all(
        isinstance(name, str) for name in cast(Sequence[object], schedule)
    )
    if is_order:
        return ""
    return (
        f"the schedule is {schedule!r:.60}, must be a tiler, the names of axes in the order of "
        "the loops, or a function that returns either"
    )


def schedule_tiler(schedule: Schedule | None, offloaded: Offloaded, where: str) -> Tiler | None:
    """Return the tiler for a composite according to a schedule; None if there is no schedule.

    schedule: a tiler, the names of axes as the order of the loops, or a function that receives
        `offloaded` and returns either.

    Raises BackendError, with the location `where`, if `schedule` is a function that fails, or that
    returns neither a tiler nor an order of loops."""
    if not is_tiler(schedule) and callable(schedule):
        with backend_code("schedule function", where):
            schedule = schedule(offloaded)
        if problem := schedule_problem(schedule):
            raise _invalid(where, problem)
    if schedule is None or is_tiler(schedule):
        return cast(Tiler | None, schedule)
    return LoopOrder(tuple(cast(Sequence[str], schedule)))


def _invalid(where: str, why: str) -> BackendError:
    help = "see penstock.uma.OpStrategy.add_implementation"
    return BackendError("backend-036", "invalid implementation", where=where, why=why, help=help)
