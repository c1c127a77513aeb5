"""devices: the accelerators of a program, and the functional models of their drivers."""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from numbers import Real
from typing import Any

from penstock.errors import BackendError, InternalError, PenstockError
from penstock.program.expr import Expr, evaluate
from penstock.program.program import Address, Driver, Invoke
from penstock.simulators.memories import Memories


class Devices:
    """The state of each accelerator, created when the accelerator is first invoked.

    `states`: the states, by engine.  `cycles`: by engine, the sum of the durations that its driver
    functions state."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self.states: dict[str, Any] = {}
        self.cycles: dict[str, float] = {}

    def invoke(self, command: Invoke, variables: Mapping[str, int]) -> None:
        """Runs the functional model of a driver function.

        Raises BackendError if the model raises, or if an argument cannot be evaluated."""
        driver = command.driver
        if driver.engine not in self.states:
            self.states[driver.engine] = driver.device()
        device = self.states[driver.engine]
        arguments = [
            self._argument(command, k, argument, variables)
            for k, argument in enumerate(command.arguments)
        ]
        record = command.with_values(arguments)
        given = arguments if record is None else [record]
        try:
            driver.model(device, *given)
        except PenstockError:
            raise
        except Exception as error:
            names = [""] * len(arguments)
            if record is not None:
                names = [f"{field.name}=" for field in fields(record)]
            words = (str(a) if isinstance(a, int) else "bytes" for a in arguments)
            shown = ", ".join(name + word for name, word in zip(names, words, strict=True))
            model = traceback.extract_tb(error.__traceback__)[1:2]  # below this function
            lines = [f", {os.path.basename(f.filename)}:{f.lineno}" for f in model]
            raise BackendError(
                "backend-090",
                f"the functional model of {driver.name} fails",
                where=f"{driver.engine}: {driver.name}({shown}){''.join(lines)}",
                why=f"{type(error).__name__}: {error}",
                help="a model takes the device's state, then the arguments of the invocation",
            ) from error
        if driver.cycles is not None:
            if record is None:
                given = [a if isinstance(a, int) else None for a in arguments]
            taken = self.cycles.get(driver.engine, 0.0)
            self.cycles[driver.engine] = taken + _duration(driver, driver.cycles, [device, *given])

    def _argument(
        self, command: Invoke, k: int, argument: Expr | Address, variables: Mapping[str, int]
    ) -> Any:
        """The value of argument number k: a number, or the bytes from an address on."""
        try:
            if isinstance(argument, Address):
                offset = evaluate(argument.offset, variables)
                return self._memories.bytes_from(argument.buffer, offset)
            return evaluate(argument, variables)
        except (InternalError, LookupError, ZeroDivisionError) as error:
            at = ", ".join(f"{name} = {value}" for name, value in variables.items())
            raise BackendError(
                "backend-093",
                f"argument {k} of {command.driver.name} cannot be resolved",
                where=f"{command.driver.engine}, {at}" if at else command.driver.engine,
                why=error.what if isinstance(error, InternalError) else str(error),
                help="a tensor has rows 0 to its height, less one: keep `row(r)` within them, and "
                "addresses within their tensor, table or scratch",
            ) from error


def _duration(driver: Driver, cycles: Callable[..., object], given: Sequence[object]) -> float:
    """The cycles of an invocation.  Raises BackendError if `cycles` fails or returns no number."""
    try:
        found = cycles(*given)
        if not isinstance(found, bool) and isinstance(found, Real) and 0 <= float(found) < math.inf:
            return float(found)
        why = f"it returned {found!r:.60}"
    except PenstockError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    raise BackendError(
        "backend-095",
        f"the cycles of {driver.name} are unknown",
        where=f'{driver.engine}, Driver("{driver.name}", cycles=..)',
        why=why,
        help="return the cycles of an invocation, given the device's state and the arguments; "
        "addresses are None",
    )
