"""Implementations of composites (matched nodes as one node) on an accelerator, built from the
backend's `OpStrategy`.

This module calls the functions of the backend and validates the values that they return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from numbers import Integral
from typing import Any, cast

import numpy as np

from penstock.backends.accelerator import AcceleratorTarget, Implementation, Strategy
from penstock.backends.author import (
    breakdown_of,
    command_problems,
    plain_number,
    prefetch_problem,
    tables_problem,
    traffic_problem,
    with_plain_numbers,
)
from penstock.backends.description import backend_code, name_of
from penstock.backends.kernel_call import KernelCall, offloading_kernel
from penstock.backends.offloaded import Offloaded
from penstock.backends.op_strategy import (
    CostFunction,
    DescribedImplementation,
    OpStrategy,
    Roofline,
    StrategyFunction,
    schedule_tiler,
)
from penstock.backends.operator_names import is_called
from penstock.errors import BackendError
from penstock.frozen import frozen
from penstock.ir.breakdown import Breakdown, Filling, PlacedCall
from penstock.ir.composite import Composite
from penstock.ir.element_types import int8_types
from penstock.ir.graph import Node
from penstock.ir.op import ConstantPrefetch, Kernel, Table, Workspace
from penstock.ir.tensor import Array
from penstock.program.program import Command


def strategy_record(
    op: str, function: StrategyFunction, level: int, roofline: Roofline | None
) -> Strategy:
    """Return the strategy for the operator or pattern `op` that calls `function`.

    level: the priority of the strategy; higher levels are tried first.
    roofline: cost model of implementations without a cost function; None: the chip's default."""

    def choose(node: Node, composite: Composite, target: AcceleratorTarget) -> list[Implementation]:
        offloaded = Offloaded(node, target)
        where = f'accelerator {target.name}, strategy {name_of(function)} for "{op}"'
        facts = strategy_attributes(offloaded.main, composite), offloaded.inputs, offloaded.output
        found = cast(object, function(*facts, target))
        if not isinstance(found, OpStrategy):
            raise BackendError(
                "backend-041",
                f"the strategy returned {found!r:.60}",
                where=where,
                why="it must return an OpStrategy, possibly without implementations",
                help="create an OpStrategy(), call its add_implementation(...), and return it",
            )
        default = roofline or Roofline.of(target.chip)
        made = [
            _BoundImplementation(
                _scheduled(offloaded, one, where), one, one.cost or default.cycles
            ).implementation()
            for one in found.implementations
        ]
        pairs = zip(made, found.implementations, strict=True)
        return [i for i, one in pairs if one.prefetch is None or i.kernel.prefetch is not None]

    choose.__name__ = name_of(function)
    return Strategy(op, choose, level)


def _scheduled(offloaded: Offloaded, one: DescribedImplementation, where: str) -> Offloaded:
    # The implementation states a tiler, an order of loops (which becomes a tiler), or a function
    # that returns either.  If it states none of these, the field is None.
    tiler = schedule_tiler(one.schedule, offloaded, f'{where}, schedule of "{one.name}"')
    return replace(offloaded, schedule=tiler)


def strategy_attributes(main: Node, composite: Composite) -> dict[str, object]:
    """Return the attributes that a strategy function receives, by name.

    These are the fields of the main operator and the attributes of the composite.  If a field and
    an attribute have the same name, the attribute takes precedence."""
    op = main.op
    own = {f.name: getattr(op, f.name) for f in fields(op)} if is_dataclass(op) else {}
    return {**own, **dict(composite.attributes)}


@frozen
class _BoundImplementation:
    """An implementation that a backend describes, for one composite (matched nodes as one node).

    offloaded: the composite, and the accelerator.
    described: the description of the implementation.
    cost: the described cost function; if there is none, the cost function of the roofline model."""

    offloaded: Offloaded
    described: DescribedImplementation
    cost: CostFunction

    def implementation(self) -> Implementation:
        return Implementation(self.described.name, self.kernel(), self.condition())

    def condition(self) -> bool | str:
        """True if the implementation can run the composite; otherwise the reason, or False."""
        # The condition that the backend states is checked first.  If it holds, the element types of
        # the tensors are checked.
        stated = self.described.condition
        return self._type_mismatch() or True if stated is True else stated

    def _type_mismatch(self) -> str:
        """Which tensor has an unsupported element type; "" if all types are supported."""
        stated = self.described.element_types
        by_operator = stated if isinstance(stated, Mapping) else {}
        declared = None if isinstance(stated, Mapping) else stated
        if declared and not declared.mismatch(self.offloaded.node.site):
            return ""  # they are the types of the composite
        for node in self.offloaded.composite.nodes:
            is_main = node is self.offloaded.main
            if isinstance(node.op, Composite):
                continue  # it has kernels of its own
            own = (types for name, types in by_operator.items() if is_called(name, node))
            own_types = next(own, declared if is_main else None)
            types = own_types or int8_types(node.op)
            mismatch = types.mismatch(node.site)
            if mismatch:
                hint = " (it declares no element_types)" if is_main and not stated else ""
                return mismatch + hint
        return ""

    def kernel(self) -> Kernel:
        described = self.described
        facts = Kernel(
            described.name,
            by_rows=described.by_rows,
            by_columns=described.by_columns,
            cycles=self.cycles(),
            traffic=self.traffic if described.traffic else None,
            alignment_bytes=described.alignment_bytes,
            cache_line_bytes=described.cache_line_bytes,
            even_rows=described.even_rows,
        )
        # The other functions of the backend may fail for a node that it does not support.
        if self.condition() is True:
            tables = self.tables().items()
            size_bytes, memory = self.scratch_bytes(), described.scratch_memory
            most_bytes = self.scattered_scratch_bytes()
            facts = replace(
                facts,
                tables=tuple((name, Table.of(np.ascontiguousarray(a))) for name, a in tables),
                scratch_bytes=0 if memory else size_bytes,
                workspace=Workspace(memory, size_bytes) if memory and size_bytes else None,
                folded=self.folded(),
                prefetch=self.prefetch(),
                placed=self.placed if described.placed_cost else None,
                placed_scratch=self.placed_scratch if most_bytes > size_bytes else None,
                scattered_scratch_bytes=most_bytes,
                filled=self.filled if described.filled_cost else None,
            )
        return offloading_kernel(self.offloaded, self.commands, facts)

    def placed(self, call: PlacedCall) -> Breakdown:
        """The cost of a placed call, that is, one whose tensors have addresses."""
        function = self.described.placed_cost
        assert function is not None
        said = f"placed_cost of rows [{call.first}, {call.end})"
        return breakdown_of(function, (self.offloaded, call), said, self.where)

    def placed_scratch(self, call: PlacedCall) -> int:
        """The working memory of a placed call."""
        function = self.described.placed_scratch
        assert function is not None
        with backend_code("placed scratch function", self.where):
            found: object = function(self.offloaded, call)
        return self._bytes("placed_scratch", found)

    def scattered_scratch_bytes(self) -> int:
        """The most working memory of a placed call."""
        function = self.described.scattered_scratch_bytes
        if function is None:
            return 0
        with backend_code("scattered_scratch_bytes function", self.where):
            found: object = function(self.offloaded)
        return self._bytes("scattered_scratch_bytes", found)

    def filled(self, rows: int, fillings: tuple[Filling, ...]) -> Breakdown:
        """The cost of a call during which constants are prefetched."""
        # This estimate applies before tensors have addresses.
        function = self.described.filled_cost
        assert function is not None
        said = f"filled_cost of {rows} rows"
        return breakdown_of(function, (self.offloaded, rows, fillings), said, self.where)

    def prefetch(self) -> ConstantPrefetch | None:
        """Which bytes of a table to prefetch before the first call; None for no prefetch."""
        if self.described.prefetch is None:
            return None
        with backend_code("prefetch function", self.where):
            found: Any = self.described.prefetch(self.offloaded)
        problem = prefetch_problem(found, self.tables())
        if problem:
            raise BackendError(
                "backend-055",
                "invalid prefetch",
                where=self.where,
                why=problem,
                help="return a ConstantPrefetch, or None to prefetch nothing",
            )
        if found is None:
            return None
        size_bytes, cycles = map(plain_number, (found.size_bytes, found.cycles))
        return replace(found, size_bytes=size_bytes, cycles=cycles)

    def folded(self) -> tuple[int, ...]:
        """The indices of the composite's inputs that no command reads."""
        # They are constants of the main operator whose elements are contained in tables.
        if isinstance(self.offloaded.main.op, Composite):
            return self._folded_inside()
        inputs, found = self.offloaded.main.inputs, list[int]()
        for k in self.described.folded:
            if not 0 <= k < len(inputs) or inputs[k].data is None:
                raise BackendError(
                    "backend-053",
                    f"input {k} cannot be folded: it is not a constant input of the main operator",
                    where=self.where,
                    why=f"{self.offloaded.main.kind} has {len(inputs)} inputs here",
                    help="list the indices of constant inputs only",
                )
            found.append(self.offloaded.composite.inputs.index(inputs[k].name))
        return tuple(found)

    def _folded_inside(self) -> tuple[int, ...]:
        """The result of `folded` for a composite that itself contains composites."""
        # It contains the indices of the inputs whose elements are in tables of the kernels chosen
        # for these inner composites, so that no command reads the inputs.
        names: set[str] = set()
        for node in self.offloaded.composite.nodes:
            if isinstance(node.op, Composite) and node.op.chosen is not None:
                names |= {node.inputs[k].name for k in node.op.chosen.folded}
        every = enumerate(self.offloaded.composite.inputs)
        return tuple(k for k, name in every if name in names)

    @property
    def where(self) -> str:
        accelerator, node = self.offloaded.target.name, self.offloaded.node.name
        return f'accelerator {accelerator}, implementation "{self.described.name}", node "{node}"'

    def cycles(self) -> Callable[[int, tuple[str, ...]], float | Breakdown]:
        # The function takes (rows, memories) and returns the cycles of a call as the backend states
        # them, as ints and floats, without validation.
        #
        # The cache is a plain dictionary, since kernels are pickled for worker processes.

        asked: dict[tuple[str, ...], Offloaded] = {(): self.offloaded}
        known: dict[tuple[int, tuple[str, ...]], float | Breakdown] = {}

        def cycles(rows: int, memories: tuple[str, ...]) -> float | Breakdown:
            if (rows, memories) not in known:
                if memories not in asked:
                    asked[memories] = replace(self.offloaded, memory_assignment=memories)
                found = with_plain_numbers(self.cost(asked[memories], rows))
                known[rows, memories] = cast(float | Breakdown, found)
            return known[rows, memories]

        return cycles

    def traffic(self, first: int, end: int) -> Mapping[str, int]:
        """The bytes that a call for output rows [first, end) moves, by kind of data."""
        # The backend chooses the names of the kinds.  Raises BackendError if its `traffic` function
        # fails, or if the result is not a mapping from names to numbers of bytes.
        assert self.described.traffic is not None
        with backend_code("traffic function", self.where):
            found: Any = self.described.traffic(self.offloaded, first, end)
        problem = traffic_problem(found)
        if problem:
            raise BackendError(
                "backend-054",
                f"the traffic of rows [{first}, {end}) is wrong",
                where=self.where,
                why=problem,
                help="return non-negative integer numbers of bytes, by name",
            )
        return {name: int(size_bytes) for name, size_bytes in found.items()}

    def scratch_bytes(self) -> int:
        """The bytes of working memory that a call needs."""
        value = self.described.scratch_bytes
        with backend_code("scratch_bytes function", self.where):
            found: Any = value(self.offloaded) if callable(value) else value
        return self._bytes("scratch_bytes", found)

    def _bytes(self, name: str, found: object) -> int:
        """A number of bytes that a backend states."""
        if isinstance(found, bool) or not isinstance(found, Integral) or int(found) < 0:
            raise BackendError(
                "backend-036",
                "invalid implementation",
                where=self.where,
                why=f"{name} is {found!r}, must be a number of bytes",
                help="see penstock.uma.OpStrategy.add_implementation",
            )
        return int(found)

    def tables(self) -> dict[str, Array]:
        value = self.described.tables
        with backend_code("tables function", self.where):
            found: Any = value(self.offloaded) if callable(value) else value
        problem = tables_problem(found)
        if problem:
            raise BackendError(
                "backend-044",
                "invalid tables",
                where=self.where,
                why=problem,
                help="return NumPy arrays of integers of at most 64 bits, by name",
            )
        return dict(found)

    def commands(self, call: KernelCall) -> Sequence[Command]:
        with backend_code("compute function", self.where):
            found = tuple(self.described.compute(call))
        for problem in command_problems(found, call.target.name):
            raise BackendError(
                "backend-043",
                "the compute function returned commands that cannot be executed",
                where=self.where,
                why=problem,
                help="return a list of call.invoke(driver, arguments...) and Loop(...)",
            )
        return found
