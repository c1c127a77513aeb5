"""queued: calls in the queue of an accelerator, which run when the program waits for them.

The driver of an accelerator may return before a call has run.  The machine runs such a call as late
as possible: when the program waits.  Until then, no other engine may read what the call writes, or
write what it reads or writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from penstock.errors import InternalError
from penstock.program.program import Driver
from penstock.simulators.memories import Memories
from penstock.simulators.operand import ConcreteOperand


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
