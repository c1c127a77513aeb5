"""Calls of the functions that a backend supplies, with validation of their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from inspect import signature
from numbers import Integral, Rational, Real
from typing import Any, TypeVar, cast

import numpy as np

from penstock.backends.accelerator import AcceleratorTarget, Implementation, Strategy
from penstock.backends.description import is_name, line_of, name_of, reason_of
from penstock.errors import BackendError, PenstockError
from penstock.ir.breakdown import Breakdown
from penstock.ir.composite import Composite
from penstock.ir.graph import Node
from penstock.ir.op import ConstantPrefetch
from penstock.ir.tensor import Array, DType, row_count
from penstock.program.expr import Binary, TableEntry, Var
from penstock.program.program import Address, Invoke, Issue, Loop, Transfer

_Answer = TypeVar("_Answer")
# A predicate or constraint of a backend, called with a composite node.
#
# It returns True to accept the node, and False or a string with the reason to refuse it. Messages
# quote its docstring.
Rule = Callable[[Node], bool | str]

_HELP_NODE = (
    "node.op is a Composite; its .nodes are the claimed nodes, and the last computes node.output"
)
# Exclusive upper bound of the cycles of one call; it keeps sums over a network within 64 bits.
MOST_CYCLES = 2**40
_HELP_CALL = "return the Breakdown of the call"
_HELP_COST = "return the cycles of one call that computes the given number of output rows"


def broken_rule(rule: Rule, node: Node) -> str | None:
    """Return the reason why a rule refuses a composite node, or None if the rule accepts it.

    A rule is a predicate or constraint of a backend.  The returned reason begins with the rule's
    docstring.
    Raises BackendError if the rule raises an exception or returns neither a Boolean nor a reason.

    >>> from penstock.ir.graph import Value
    >>> from penstock.ir.tensor import DType, TensorType
    >>> from penstock.ops.plain import PlainRelu
    >>> type = TensorType((1, 4, 3, 5), DType.FLOAT32)
    >>> node = Node(PlainRelu(), (Value("x", type),), Value("y", type))
    >>> def few_rows(node):
    ...     '''Images have at most 3 rows.'''
    ...     rows = node.output.shape[1]
    ...     return rows <= 3 or f"this one has {rows}"
    >>> broken_rule(few_rows, node)
    'Images have at most 3 rows: this one has 4'
    """
    where = f'rule "{name_of(rule)}", applied to {node.origin or node.name}'
    why = refusal(_call(rule, (node,), where, _HELP_NODE), where)
    if why is None:
        return None
    said = (rule.__doc__ or "").strip().split("\n\n")[0]
    stated = " ".join(said.split()).rstrip(".") or f"its rule {name_of(rule)}"
    return f"{stated}: {why}" if why else stated


def refusal(answer: object, where: str) -> str | None:
    """Return the reason for a refusal, which may be ""; None if there is no refusal.

    Raises BackendError for any other answer of a rule than True, False and a reason."""
    if isinstance(answer, bool | np.bool_):
        return None if answer else ""
    if isinstance(answer, str) and answer:
        return answer
    raise BackendError(
        "backend-007",
        f"the rule returned {answer!r}",
        where=where,
        why="a rule returns True, False, or a string with the reason for rejecting the node",
        help="return one of these in every branch; the docstring states the rule",
    )


def implementations(
    strategy: Strategy, node: Node, target: AcceleratorTarget
) -> tuple[Implementation, ...]:
    """Return the implementations that a strategy chooses for a composite node.

    Raises BackendError if the strategy raises an exception or returns anything but a sequence of
    implementations.
    """
    assert isinstance(node.op, Composite)
    where = f'the strategy for "{strategy.op}" of {target.name}, for {node.origin or node.name}'
    found = _call(strategy.choose, (node, node.op, target), where, _HELP_NODE)
    if isinstance(found, Sequence) and all(isinstance(one, Implementation) for one in found):
        return tuple(found)
    raise BackendError(
        "backend-008",
        f"the strategy returned {_shortened(found)}",
        where=where,
        why="a strategy returns a sequence of the implementations of the accelerator",
        help="return a sequence; an empty one means that there is no implementation",
    )


def cycles(implementation: Implementation, node: Node) -> float:
    """Return the cycles of a call of `implementation` that computes the whole output of `node`.

    Raises BackendError if there is no cost function, or if it returns no valid number of cycles.
    The cost of a single row is checked, too, because the schedule search needs it later.
    """
    engine = node.op.engine if isinstance(node.op, Composite) else "accelerator"
    where = f'{engine}: the cost of "{implementation.name}", for {node.origin or node.name}'
    cost = implementation.kernel.cycles
    if cost is None:
        raise _bad_cost("the kernel has no cost function", where)
    cost_of(cost, 1, (), where)
    return cost_of(cost, row_count(node.output.shape), (), where)


def cost_of(
    cost: Callable[[int, tuple[str, ...]], object], rows: int, memories: tuple[str, ...], where: str
) -> float:
    """Return the cycles of a call that computes `rows` output rows, according to `cost`.

    memories: names of the accelerator's memories that hold each input and, last, the output, for
        example ("sram", "", "sram").  "" stands for a constant, or for a memory outside the
        accelerator.  An empty tuple stands for "" everywhere.

    Raises BackendError if `cost` raises an exception or returns no valid number of cycles.
    """
    result = _call(cost, (rows, memories), where, _HELP_COST)
    expression = f"cost({rows})"
    if not isinstance(result, Breakdown):
        return _checked_cycles(result, expression, where)
    _check_breakdown(result, expression, where)
    return _checked_cycles(result.cycles, expression, where)


def breakdown_of(
    cost: Callable[..., object], arguments: tuple[object, ...], expression: str, where: str
) -> Breakdown:
    """Return `cost(*arguments)`; messages quote the call as `expression`.

    Raises BackendError if `cost` raises an exception or returns anything but a valid Breakdown."""
    found = _call(cost, arguments, where, _HELP_CALL)
    if isinstance(found, Breakdown) and _is_plain(found):
        return found
    result = with_plain_numbers(found)
    if not isinstance(result, Breakdown):
        raise _bad_cost(f"{expression} is {_shortened(result)}, not a Breakdown", where)
    _checked_cycles(result.cycles, expression, where)
    _check_breakdown(result, expression, where)
    return result


def _is_plain(cost: Breakdown) -> bool:
    """Whether the numbers of a valid breakdown are int or float: then nothing is to be done."""
    macs, resources = cost.macs_per_cycle, cast(object, cost.by_resource)
    if type(resources) is not dict or macs == 0:
        return False
    numbers = (cost.cycles, cost.cold_start, cost.memory_bytes, macs or 0, *resources.values())
    if not (set(map(type, numbers)) <= {int, float} and set(map(type, resources)) <= {str}):
        return False
    return min(numbers) >= 0 and sum(numbers) < MOST_CYCLES  # false if one is no number


def with_plain_numbers(cost: object) -> object:
    """Return `cost`, the result of a cost function, with its numbers converted to int or float.

    NumPy integers and Fractions that are integers become int; other real numbers become float.
    Anything that is not a number remains as it is.

    >>> from fractions import Fraction
    >>> stated = Breakdown(Fraction(7, 2), {"memory": np.int64(3)}, Fraction(16))
    >>> (found := with_plain_numbers(stated)).cycles, found.by_resource, found.macs_per_cycle
    (3.5, {'memory': 3}, 16)
    """
    if not isinstance(cost, Breakdown):
        return plain_number(cost)
    resources = cast(object, cost.by_resource)
    if isinstance(resources, Mapping):
        pairs = cast(Mapping[object, object], resources).items()
        resources = {name: plain_number(cycles) for name, cycles in pairs}
    others = {
        name: cast(float, plain_number(getattr(cost, name)))
        for name in ("cycles", "macs_per_cycle", "cold_start", "memory_bytes")
    }
    return replace(cost, by_resource=cast(Mapping[str, float], resources), **others)


def plain_number(value: object) -> object:
    """Return a real number as int or float (`with_plain_numbers`), and anything else unchanged."""
    if type(value) in (int, float, bool) or not isinstance(value, Real):
        return value
    if isinstance(value, Rational):
        return int(value.numerator) if value.denominator == 1 else float(value)
    return float(value)


def _check_breakdown(breakdown: Breakdown, expression: str, where: str) -> None:
    """Check the fields of `breakdown` other than `cycles`.  Raises BackendError."""
    resources = cast(object, breakdown.by_resource)
    if not isinstance(resources, Mapping):
        text = f"by_resource of {expression} is {_shortened(resources)}, not a mapping"
        raise _bad_cost(text, where)
    for name, cycles in cast(Mapping[object, object], resources).items():
        if not isinstance(name, str):
            raise _bad_cost(f"a resource of {expression} is {_shortened(name)}, not a name", where)
        _checked_cycles(cycles, f'"{name}" of {expression}', where)
    _checked_cycles(breakdown.cold_start, f"cold_start of {expression}", where)
    macs = breakdown.macs_per_cycle
    if macs is not None and not _checked_cycles(macs, f"macs_per_cycle of {expression}", where):
        raise _bad_cost(f"macs_per_cycle of {expression} is 0", where)


def _checked_cycles(value: object, expression: str, where: str) -> float:
    """Return `value`, which must be a number in [0, MOST_CYCLES), as a float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _bad_cost(f"{expression} is {_shortened(value)}, not a number", where)
    number = float(value)
    if not (0 <= number < MOST_CYCLES):
        raise _bad_cost(f"{expression} is {number:g} cycles", where)
    return number


def _bad_cost(what: str, where: str) -> BackendError:
    return BackendError(
        "backend-009",
        what,
        where=where,
        why="schedules are compared by cycles: a number in [0, 2^40)",
        help=_HELP_COST,
    )


def _call(
    function: Callable[..., Any], arguments: tuple[object, ...], where: str, help: str
) -> object:
    """Return `function(*arguments)`, the result of a function that a backend supplies."""
    try:
        return function(*arguments)
    except PenstockError:
        raise
    except Exception as error:
        raise BackendError(
            "backend-006",
            f"{name_of(function)} raised {reason_of(error)}",
            where=", ".join(filter(None, (where, line_of(error)))),
            why="its arguments are those that the interface documents; it must return a result",
            help=help,
        ) from error


def _shortened(value: object) -> str:
    """The repr of a value, truncated to at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}.."


# Checks of the values that functions of a backend return.
#
# Each check returns the description of a problem, which becomes part of an error message.


def prefetch_problem(found: object, tables: Mapping[str, Array]) -> str:
    """Return what is wrong with `found`, the result of a prefetch function; "" if it is valid.

    tables: the implementation's tables, by name."""
    # A valid result is None, for no prefetch, or a ConstantPrefetch.  A ConstantPrefetch must name
    # one of `tables`; its size must be at least 1 byte and at most the size of this table, and its
    # cycles a finite number of at least 0.
    if found is None:
        return ""
    if not isinstance(found, ConstantPrefetch):
        return f"it is {found!r:.60}, not a ConstantPrefetch"
    if found.table not in tables:
        return f'there is no table "{found.table}"; the tables are: {", ".join(tables) or "none"}'
    size, cycles = cast(tuple[object, object], (found.size_bytes, found.cycles))
    if isinstance(size, bool) or not isinstance(size, Integral):
        return f"size_bytes is {size!r:.60}, must be an integer"
    if (
        isinstance(cycles, bool)
        or not isinstance(cycles, Real)
        or not 0 <= float(cycles) < math.inf
    ):
        return f"cycles is {cycles!r:.60}, must be a number of cycles"
    most = tables[found.table].nbytes
    if not 0 < found.size_bytes <= most:
        return f'{found.size_bytes} bytes are to be prefetched of "{found.table}", which has {most}'
    return ""


def traffic_problem(found: object) -> str:
    """Return why `found` is not a mapping from strings to byte counts; "" if it is one."""
    if not isinstance(found, Mapping):
        return f"it is {found!r:.60}, not a mapping"
    for name, size in cast(Mapping[object, object], found).items():
        if not isinstance(name, str):
            return f"the name {name!r} is no text"
        if isinstance(size, bool) or not isinstance(size, Integral) or int(size) < 0:
            return f'"{name}" is {size!r:.60}'
    return ""


def tables_problem(found: object) -> str:
    """Return why `found` is not a mapping from strings to arrays; "" if it is one."""
    # The element type of each array must be a `DType`.
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


def command_problems(commands: Sequence[object], engine: str) -> Iterator[str]:
    """Yield a description of each reason why `commands` cannot run on the accelerator `engine`."""
    for command in commands:
        match command:
            case Loop():
                yield from command_problems(command.body, engine)
            case Invoke():
                yield from _invocation_problems(command, engine)
            case Issue():
                if not isinstance(command.operation, Hashable):
                    kind = type(command.operation).__name__
                    yield f"it issues a {kind}, must issue a frozen dataclass"
            case Transfer():
                pass
            case _:
                yield f"it makes {command!r:.80}"


def _invocation_problems(invoke: Invoke, engine: str) -> Iterator[str]:
    driver = invoke.driver
    if not is_name(driver.name):
        yield f"the name of a driver function is {driver.name!r}, must be a text"
    if driver.engine != engine:
        yield f'the driver function {driver.name} is of engine "{driver.engine}", not "{engine}"'
    count = len(invoke.given) if isinstance(invoke.given, tuple) else 1
    for role, function in (("model", driver.model), ("cycles", driver.cycles)):
        if function is not None and not _takes(function, 1 + count):
            given = f"{count} arguments" if isinstance(invoke.given, tuple) else "the record"
            yield f"the {role} of {driver.name} must take the state of the device and {given}"
    for number, argument in enumerate(invoke.arguments):
        if type(argument) is not int and not isinstance(
            argument, Var | Binary | TableEntry | Address
        ):
            yield (
                f"argument {number} of {driver.name} is {argument!r:.60}, "
                "must be an address, an int or an expression"
            )


@lru_cache(maxsize=256)
def _takes(function: Callable[..., object], count: int) -> bool:
    """Return whether a function can be called with `count` positional arguments.

    >>> _takes(lambda device, x: 0, 2), _takes(lambda x: 0, 2), _takes(print, 2)
    (True, False, True)
    """
    try:
        signature(function).bind(*[None] * count)
    except ValueError:
        return True  # a function without a signature, such as some that are built in
    except TypeError:
        return False
    return True
