"""Checks of the values that functions of a backend return.

Each check returns the description of a problem, which becomes part of an error message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from inspect import signature
from numbers import Integral, Real
from typing import cast

import numpy as np

from penstock.backends.description import is_name
from penstock.ir.op import ConstantPrefetch
from penstock.ir.tensor import Array, DType
from penstock.program.expr import Binary, TableEntry, Var
from penstock.program.program import Address, Invoke, Issue, Loop, Transfer


def prefetch_problem(found: object, tables: Mapping[str, Array]) -> str:
    """Return what is wrong with `found`, the result of a prefetch function; "" if it is valid.

    A valid result is None, for no prefetch, or a ConstantPrefetch.  A ConstantPrefetch must name
    one of `tables`; its size must be at least 1 byte and at most the size of this table, and its
    cycles a finite number of at least 0.

    tables: the implementation's tables, by name."""
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
    """Return why `found` is not a mapping from strings to arrays; "" if it is one.

    The element type of each array must be a `DType`."""
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
