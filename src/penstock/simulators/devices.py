"""Devices: the accelerators of a program, each with its state; runs what their drivers do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import BackendError, PenstockError
from penstock.program.expr import Expr, evaluate
from penstock.program.program import Address, Invoke
from penstock.simulators.memories import Memories


class Devices:
    """One device an engine, made when it is first invoked; `cycles` by engine, as drivers say."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self._states: dict[str, Any] = {}
        self.cycles: dict[str, float] = {}

    def invoke(self, command: Invoke, variables: Mapping[str, int]) -> None:
        """Runs the functional model of a driver's function.

        Raises BackendError where the model raises."""
        driver = command.driver
        if driver.engine not in self._states:
            self._states[driver.engine] = driver.device()
        arguments = [self._argument(argument, variables) for argument in command.arguments]
        try:
            driver.model(self._states[driver.engine], *arguments)
        except PenstockError:
            raise
        except Exception as error:
            shown = ", ".join("bytes" if not isinstance(a, int) else str(a) for a in arguments)
            raise BackendError(
                "backend-090",
                f"the functional model of {driver.name} fails",
                where=f"{driver.engine}: {driver.name}({shown})",
                why=f"{type(error).__name__}: {error}",
                help="a model takes the device's state, then the arguments of the invocation",
            ) from error
        if driver.cycles is not None:
            numbers = [a if isinstance(a, int) else None for a in arguments]
            taken = self.cycles.get(driver.engine, 0.0)
            self.cycles[driver.engine] = taken + driver.cycles(*numbers)

    def _argument(self, argument: Expr | Address, variables: Mapping[str, int]) -> Any:
        if isinstance(argument, Address):
            offset = evaluate(argument.offset, variables)
            return self._memories.bytes_from(argument.buffer, offset)
        return evaluate(argument, variables)
