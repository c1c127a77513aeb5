"""devices: the accelerators of a program, the functional models of their drivers, and their queues.

The driver of an accelerator may return before a call has run.  The machine runs such a call as late
as possible: when the program waits.  Until then, no other engine may read what the call writes, or
write what it reads or writes.
"""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from numbers import Real
from typing import Any

from penstock.errors import BackendError, InternalError, PenstockError
from penstock.program.expr import Expr, evaluate
from penstock.program.program import Address, Driver, Invoke
from penstock.simulators.memories import Memories
from penstock.simulators.operand import ConcreteOperand


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


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """A call of which the operands are known.

    run: computes the output.
    reads, writes: the operands of the call, its scratch among those that it writes."""

    engine: str
    run: Callable[[], None]
    reads: Sequence[ConcreteOperand]
    writes: Sequence[ConcreteOperand]


class Queued:
    """The calls in the queues of all accelerators, in the order of submission."""

    def __init__(self, memories: Memories, waits: Sequence[Driver]) -> None:
        """`waits`: the driver functions that wait, of the accelerators whose calls are queued."""
        self._memories = memories
        self._waits = {(driver.engine, driver.name) for driver in waits}
        self._engines = {driver.engine for driver in waits}
        self._calls: list[ReadyCall] = []

    def submit(self, call: ReadyCall) -> None:
        """Appends a call to the queue of its engine, or runs it now if the engine has none."""
        self.check(call.engine, call.reads, call.writes)
        if call.engine in self._engines:
            self._calls.append(call)
        else:
            call.run()

    def free(self, buffer: str) -> None:
        """Poisons the bytes that a buffer owns, after the calls that are in a queue now."""
        run = partial(self._memories.free, self._memories.buffers[buffer])
        if self._calls:
            self._calls.append(ReadyCall(self._calls[-1].engine, run, (), ()))
        else:
            run()

    def complete(self, driver: Driver) -> None:
        """If `driver` waits for an accelerator, runs the calls in its queue, in order."""
        if (driver.engine, driver.name) not in self._waits:
            return
        calls = [call for call in self._calls if call.engine == driver.engine]
        self._calls = [call for call in self._calls if call.engine != driver.engine]
        for call in calls:
            call.run()

    def check_empty(self) -> None:
        """Raises InternalError if a queue is not empty."""
        if self._calls:
            engines = ", ".join(sorted({call.engine for call in self._calls}))
            raise InternalError("machine-012", f"calls never waited for on {engines}")

    def check(
        self, engine: str, reads: Sequence[ConcreteOperand], writes: Sequence[ConcreteOperand]
    ) -> None:
        """Raises InternalError if a command of `engine` reads what a call in the queue of another
        engine writes, or writes what such a call reads or writes."""
        for call in (call for call in self._calls if call.engine != engine):
            pairs = (*product(reads, call.writes), *product(writes, (*call.reads, *call.writes)))
            for mine, other in pairs:
                if self._memories.overlap(mine, other):
                    raise InternalError(
                        "machine-012",
                        f'"{mine.view.tensor}" is used on {engine} before the program waits for '
                        f'the call on {call.engine} that uses "{other.view.tensor}"',
                    )
