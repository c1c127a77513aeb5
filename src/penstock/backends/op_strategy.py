"""OpStrategy: the ways to run an operator, as an accelerator's author states them; and how they
become the records that the compiler chooses from.

Source: TVM RFC 0060, _register_operator_strategy; what it lacked: costs, conditions, tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from numbers import Integral
from typing import Any, cast

import numpy as np

from penstock.backends.accelerator import AcceleratorTarget, Implementation, Strategy
from penstock.backends.author import breakdown_of
from penstock.backends.description import authors_code, is_name, name_of, require_callable
from penstock.backends.kernel_call import Compute, KernelCall, Offloaded, offloading_kernel
from penstock.backends.roofline import Roofline
from penstock.errors import BackendError
from penstock.ir.breakdown import Breakdown
from penstock.ir.composite import Composite
from penstock.ir.graph import Node
from penstock.ir.op import Fetch, Kernel
from penstock.ir.placed_call import Filling, PlacedCall
from penstock.ir.tensor import Array, DType, TensorType
from penstock.program.expr import Binary, TableEntry, Var
from penstock.program.program import Address, Command, Invoke, Loop

ALIGNMENTS = (1, 2, 4, 8, 16, 32, 64)
"""Bytes to multiples of which kernels may want rows."""

Cost = Callable[[Offloaded, int], float | Breakdown]
"""Cycles of a call that computes so many rows of the output; a Breakdown also says of what."""

TrafficOf = Callable[[Offloaded, int, int], Mapping[str, int]]
"""By what they are, bytes that a call for rows [first, end) of the output moves."""

TablesOf = Callable[[Offloaded], Mapping[str, Array]]
"""The weight-layout hook: arrays by name that are made at compile time, as the accelerator wants
them, for `KernelCall.table`."""

ScratchOf = Callable[[Offloaded], int]
"""Bytes of working memory, where they depend on more than types."""

FetchOf = Callable[[Offloaded], Fetch | None]
"""Which constants are copied into the memory of tensors before."""

PlacedCostOf = Callable[[Offloaded, PlacedCall], Breakdown]
"""What a call takes where its rows lie."""

FilledCostOf = Callable[[Offloaded, int, tuple[Filling, ...]], Breakdown]
"""Cycles of a call that also copies constants, by its number of rows."""

StrategyFunction = Callable[
    [Mapping[str, object], Sequence[TensorType], TensorType, AcceleratorTarget], "OpStrategy"
]
"""(attrs, inputs, out_type, target) -> OpStrategy, as in the RFC."""


@dataclass(frozen=True, slots=True)
class Stated:
    """An implementation as its author states it."""

    name: str
    compute: Compute
    cost: Cost | None
    traffic: TrafficOf | None
    condition: bool | str
    tables: Mapping[str, Array] | TablesOf
    by_rows: bool
    scratch_bytes: int | ScratchOf
    folded: tuple[int, ...]
    alignment_bytes: int
    fetch: FetchOf | None
    placed_cost: PlacedCostOf | None = None
    filled_cost: FilledCostOf | None = None


class OpStrategy:
    """Collects the implementations of a strategy.  Source: TVM RFC 0060.

    >>> strategy = OpStrategy()
    >>> strategy.add_implementation(lambda call: (), name="npu.conv2d", cost=lambda o, rows: 9)
    >>> [stated.name for stated in strategy.implementations]
    ['npu.conv2d']
    """

    def __init__(self) -> None:
        self._stated: list[Stated] = []

    @property
    def implementations(self) -> tuple[Stated, ...]:
        """What was added, in order."""
        return tuple(self._stated)

    def add_implementation(
        self,
        compute: Compute,
        schedule: object = None,
        *,
        name: str,
        cost: Cost | None = None,
        traffic: TrafficOf | None = None,
        condition: bool | str = True,
        tables: Mapping[str, Array] | TablesOf | None = None,
        by_rows: bool = False,
        scratch_bytes: int | ScratchOf = 0,
        folded: Sequence[int] = (),
        alignment_bytes: int = 1,
        fetch: FetchOf | None = None,
        placed_cost: PlacedCostOf | None = None,
        filled_cost: FilledCostOf | None = None,
    ) -> None:
        """Adds a way to run the operator.

        `compute`: makes the commands of a call.
        `schedule`: is there for UMA's listings and is not used: the compiler schedules.
        `cost`: cycles of a call, or a Breakdown of them by resource, which `penstock profile`
            shows; the roofline where nothing is stated.
        `traffic`: bytes that a call moves, by what they are, which it shows, too.
        `condition`: whether it can run what the strategy was asked for; a text says why not.
        `tables`: arrays for `call.table`, or a function of Offloaded that makes them.
        `by_rows`: it computes any interval of rows, [call.first, call.end), and takes its operands'
            rows wherever they are (`operand.row`), so that cascades may run it stripe by stripe;
            otherwise it gets whole tensors.
        `scratch_bytes`: working memory in RAM, for `call.scratch`; or a function of Offloaded that
            says how much.  Where there is no room for it, the best implementation without serves.
        `folded`: constant inputs of the main operator that no command reads, since what they say
            is in tables; they need no room in flash.
        `alignment_bytes`: rows of inputs and of the output begin at multiples of it.
        `fetch`: a function of Offloaded: which constants (a Fetch) the accelerator itself copies
            into the memory of tensors before the first call, maybe while it does something else;
            None where that does no good here.  `call.fetched` is where they are.  The compiler
            takes such an implementation instead of another one where there is room and it pays.
        `placed_cost`: what a call takes once its rows have addresses, where that depends on them:
            a function of Offloaded and a PlacedCall.  It includes what the call fetches.
        `filled_cost`: what a call takes that fetches constants, before anything has addresses: a
            function of Offloaded, a number of rows, and Fillings.

        Raises BackendError."""
        del schedule
        where = f'implementation "{name}"'
        require_callable(compute, "compute function", "a KernelCall", where)
        if cost is not None:
            require_callable(cost, "cost function", "an Offloaded and a number of rows", where)
        if traffic is not None:
            require_callable(traffic, "traffic function", "an Offloaded and two rows", where)
        if fetch is not None:
            require_callable(fetch, "fetch function", "an Offloaded", where)
        if placed_cost is not None:
            facts = "an Offloaded and a PlacedCall"
            require_callable(placed_cost, "placed cost function", facts, where)
        if filled_cost is not None:
            facts = "an Offloaded, a number of rows and Fillings"
            require_callable(filled_cost, "filled cost function", facts, where)
        taken = [stated.name for stated in self._stated]
        problem = _problem(name, condition, scratch_bytes, taken) or _problem_of_folded(folded)
        if alignment_bytes not in ALIGNMENTS:
            problem = f"alignment_bytes is {alignment_bytes!r}, must be one of {ALIGNMENTS}"
        if problem:
            raise BackendError(
                "backend-036",
                "the implementation is stated wrongly",
                where=where,
                why=problem,
                help="see penstock.uma.OpStrategy.add_implementation",
            )
        self._stated.append(
            Stated(
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
                fetch,
                placed_cost,
                filled_cost,
            )
        )


def _problem(name: object, condition: object, scratch_bytes: object, taken: list[str]) -> str:
    if not is_name(name):
        return f"the name is {name!r}, must be a text"
    if name in taken:
        return "there is another of this name in the strategy"
    if not isinstance(condition, bool | str):
        return f"the condition is {condition!r}, must be True, False, or a text that says why not"
    if not callable(scratch_bytes) and (type(scratch_bytes) is not int or scratch_bytes < 0):
        return f"scratch_bytes is {scratch_bytes!r}, must be a number of bytes"
    return ""


def _problem_of_folded(folded: object) -> str:
    is_right = isinstance(folded, Sequence) and all(type(k) is int for k in cast(Any, folded))
    return "" if is_right else f"folded is {folded!r:.60}, must be a sequence of numbers of inputs"


def strategy_record(
    op: str, function: StrategyFunction, level: int, roofline: Roofline | None
) -> Strategy:
    """The record that the compiler chooses implementations from."""

    def choose(node: Node, composite: Composite, target: AcceleratorTarget) -> list[Implementation]:
        offloaded = Offloaded(node, target)
        where = f'accelerator {target.name}, strategy {name_of(function)} for "{op}"'
        facts = attributes_of(offloaded.main, composite), offloaded.inputs, offloaded.output
        found = cast(object, function(*facts, target))
        if not isinstance(found, OpStrategy):
            raise BackendError(
                "backend-041",
                f"the strategy gives {found!r:.60}",
                where=where,
                why="it must give an OpStrategy; one without implementations where there is none",
                help="make an OpStrategy(), call its add_implementation(...), and return it",
            )
        default = roofline or Roofline.of(target.chip)
        made = [
            _Made(offloaded, s, s.cost or default.cycles).implementation()
            for s in found.implementations
        ]
        pairs = zip(made, found.implementations, strict=True)
        return [i for i, stated in pairs if stated.fetch is None or i.kernel.fetch is not None]

    choose.__name__ = name_of(function)
    return Strategy(op, choose, level)


def attributes_of(main: Node, composite: Composite) -> dict[str, object]:
    """The fields of the main operator, and above them what passes said of the composite."""
    op = main.op
    own = {f.name: getattr(op, f.name) for f in fields(op)} if is_dataclass(op) else {}
    return {**own, **dict(composite.attributes)}


@dataclass(frozen=True, slots=True)
class _Made:
    """An implementation for one composite; what its author's functions give is checked."""

    offloaded: Offloaded
    stated: Stated
    cost: Cost

    def implementation(self) -> Implementation:
        return Implementation(self.stated.name, self.kernel(), self.stated.condition)

    def kernel(self) -> Kernel:
        possible = self.stated.condition is True
        return offloading_kernel(
            self.offloaded,
            self.stated.name,
            self.commands,
            cycles=self.cycles(),
            traffic=self.traffic if self.stated.traffic else None,
            tables=self.tables() if possible else {},
            by_rows=self.stated.by_rows,
            scratch_bytes=self.scratch_bytes() if possible else 0,
            folded=self.folded() if possible else (),
            alignment_bytes=self.stated.alignment_bytes,
            fetch=self.fetch() if possible else None,
            placed=self.placed if possible and self.stated.placed_cost else None,
            filled=self.filled if possible and self.stated.filled_cost else None,
        )

    def placed(self, call: PlacedCall) -> Breakdown:
        """What a call takes where its rows lie.  Raises BackendError where the author's function
        fails, or gives no number of cycles."""
        function = self.stated.placed_cost
        assert function is not None
        said = f"placed_cost of rows [{call.first}, {call.end})"
        return breakdown_of(function, (self.offloaded, call), said, self.where)

    def filled(self, rows: int, fillings: tuple[Filling, ...]) -> Breakdown:
        """What a call for so many rows takes that copies constants.  Raises BackendError, as
        `placed` does."""
        function = self.stated.filled_cost
        assert function is not None
        said = f"filled_cost of {rows} rows"
        return breakdown_of(function, (self.offloaded, rows, fillings), said, self.where)

    def fetch(self) -> Fetch | None:
        """What the author's function says that is fetched.  Raises BackendError where it is not of
        a table."""
        if self.stated.fetch is None:
            return None
        with authors_code("fetch function", self.where):
            found: Any = self.stated.fetch(self.offloaded)
        problem = _problem_of_fetch(found, self.tables())
        if problem:
            raise BackendError(
                "backend-055",
                "what is fetched is stated wrongly",
                where=self.where,
                why=problem,
                help="give a Fetch, or None where nothing is to be fetched",
            )
        return found

    def folded(self) -> tuple[int, ...]:
        """Inputs of the composite that are constant inputs of its main operator, by its numbers.

        Raises BackendError where one is none."""
        inputs, found = self.offloaded.main.inputs, list[int]()
        for k in self.stated.folded:
            if not 0 <= k < len(inputs) or inputs[k].data is None:
                raise BackendError(
                    "backend-053",
                    f"input {k} cannot be folded: it is no constant input of the main operator",
                    where=self.where,
                    why=f"{self.offloaded.main.kind} has {len(inputs)} inputs here",
                    help="name constant inputs only, counted from 0",
                )
            found.append(self.offloaded.composite.inputs.index(inputs[k].name))
        return tuple(found)

    @property
    def where(self) -> str:
        accelerator, node = self.offloaded.target.name, self.offloaded.node.name
        return f'accelerator {accelerator}, implementation "{self.stated.name}", node "{node}"'

    def cycles(self) -> Callable[[int, tuple[str, ...]], float | Breakdown]:
        """Cycles of a call, as the author's function says, which is asked once for each number of
        rows and homes: whoever asks checks them.  The memos are plain dictionaries, so that what
        is made here can be pickled for other processes."""

        asked: dict[tuple[str, ...], Offloaded] = {(): self.offloaded}
        known: dict[tuple[int, tuple[str, ...]], float | Breakdown] = {}

        def cycles(rows: int, homes: tuple[str, ...]) -> float | Breakdown:
            if (rows, homes) not in known:
                if homes not in asked:
                    asked[homes] = replace(self.offloaded, homes=homes)
                known[rows, homes] = self.cost(asked[homes], rows)
            return known[rows, homes]

        return cycles

    def traffic(self, first: int, end: int) -> Mapping[str, int]:
        """Bytes that rows [first, end) move, by what they are.  Raises BackendError where what the
        author's function gives is none."""
        assert self.stated.traffic is not None
        with authors_code("traffic function", self.where):
            found: Any = self.stated.traffic(self.offloaded, first, end)
        problem = _problem_of_traffic(found)
        if problem:
            raise BackendError(
                "backend-054",
                f"the traffic of rows [{first}, {end}) is wrong",
                where=self.where,
                why=problem,
                help="give whole numbers of bytes, at least 0, by the name of what is moved",
            )
        return found

    def scratch_bytes(self) -> int:
        """Of working memory.  Raises BackendError where the author's function gives no number."""
        stated = self.stated.scratch_bytes
        with authors_code("scratch_bytes function", self.where):
            found: Any = stated(self.offloaded) if callable(stated) else stated
        if type(found) is not int or found < 0:
            raise BackendError(
                "backend-036",
                "the implementation is stated wrongly",
                where=self.where,
                why=f"scratch_bytes is {found!r}, must be a number of bytes",
                help="see penstock.uma.OpStrategy.add_implementation",
            )
        return found

    def tables(self) -> dict[str, Array]:
        """The arrays by name.  Raises BackendError where they are none."""
        stated = self.stated.tables
        with authors_code("tables function", self.where):
            found: Any = stated(self.offloaded) if callable(stated) else stated
        problem = _problem_of_tables(found)
        if problem:
            raise BackendError(
                "backend-044",
                "the tables are wrong",
                where=self.where,
                why=problem,
                help="give NumPy arrays by name, of whole numbers of at most 64 bits",
            )
        return dict(found)

    def commands(self, call: KernelCall) -> Sequence[Command]:
        """What the compute function makes.  Raises BackendError where it is no body of a call."""
        with authors_code("compute function", self.where):
            found = tuple(self.stated.compute(call))
        for problem in _problems_of_commands(found, call.target.name):
            raise BackendError(
                "backend-043",
                "the compute function makes commands that cannot run",
                where=self.where,
                why=problem,
                help="return a list of call.invoke(driver, arguments...) and Loop(...)",
            )
        return found


def _problem_of_fetch(found: object, tables: Mapping[str, Array]) -> str:
    if found is None:
        return ""
    if not isinstance(found, Fetch):
        return f"it is {found!r:.60}, not a Fetch"
    if found.table not in tables:
        return f'there is no table "{found.table}", but {", ".join(tables) or "none"}'
    most = tables[found.table].nbytes
    if not 0 < found.size_bytes <= most:
        return f'{found.size_bytes} bytes are to be fetched of "{found.table}", which has {most}'
    return ""


def _problem_of_traffic(found: object) -> str:
    if not isinstance(found, Mapping):
        return f"it is {found!r:.60}, not a mapping"
    for name, size in cast(Mapping[object, object], found).items():
        if not isinstance(name, str):
            return f"the name {name!r} is no text"
        if isinstance(size, bool) or not isinstance(size, Integral) or int(size) < 0:
            return f'"{name}" is {size!r:.60}'
    return ""


def _problem_of_tables(found: object) -> str:
    if not isinstance(found, Mapping):
        return f"they are {found!r:.60}, not a mapping"
    types = {dtype.value for dtype in DType}
    for name, array in cast(Mapping[object, object], found).items():
        if not isinstance(name, str):
            return f"the name {name!r} is no text"
        if not isinstance(array, np.ndarray):
            return f'"{name}" is {array!r:.60}'
        if array.dtype.name not in types:
            return f'"{name}" has elements of type {array.dtype.name}'
    return ""


def _problems_of_commands(commands: Sequence[object], engine: str) -> Iterator[str]:
    for command in commands:
        match command:
            case Loop():
                yield from _problems_of_commands(command.body, engine)
            case Invoke():
                yield from _problems_of_invocation(command, engine)
            case _:
                yield f"it makes {command!r:.80}"


def _problems_of_invocation(invoke: Invoke, engine: str) -> Iterator[str]:
    driver = invoke.driver
    if not is_name(driver.name):
        yield f"the name of a driver function is {driver.name!r}, must be a text"
    if driver.engine != engine:
        yield f'the driver function {driver.name} is of engine "{driver.engine}", not "{engine}"'
    for number, argument in enumerate(invoke.arguments):
        if type(argument) is not int and not isinstance(
            argument, Var | Binary | TableEntry | Address
        ):
            yield (
                f"argument {number} of {driver.name} is {argument!r:.60}, "
                "must be an address, an int or an expression"
            )
