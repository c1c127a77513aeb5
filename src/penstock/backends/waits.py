"""Waits: before another engine runs, a program waits for the calls in an accelerator's queue.

The driver function that receives a command stream may return before the accelerator has executed
the stream.  The accelerator executes streams in order, so it needs no wait between its own calls.
The reference machine executes them when the program waits (`simulators/devices.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.backends.accelerator import Accelerator
from penstock.program.program import Call, Command, Discard, Invoke, Loop, Program


def with_waits(program: Program, accelerator: Accelerator) -> Program:
    """Return the program with calls of the driver function that waits for an accelerator.

    After calls of the accelerator, the program waits before the next command of another engine, or
    at the end of the run if there is no such command.  Consecutive calls of the accelerator have no
    wait between them.  If the backend has registered no function that waits (`_register_wait`), or
    if the accelerator has no calls, the program is unchanged."""
    wait = accelerator.codegen.wait
    if wait is None:
        return program
    waits = _Waits(accelerator.name, Invoke(wait, ()))
    run = tuple(waits.added(program.run))
    run = (*run, waits.wait) if waits.pending else run
    if run == program.run:
        return program
    return replace(program, run=run, waits=(*program.waits, wait))


@dataclass
class _Waits:
    """Inserts waits into the commands of a program, in order.

    engine: the accelerator.
    wait: the command that waits for it.
    pending: whether calls may be in its queue."""

    engine: str
    wait: Invoke
    pending: bool = False

    def added(self, commands: Sequence[Command]) -> Iterator[Command]:
        """Yield `commands` in order, with the waits among them; update `pending`.

        If calls are pending, a wait precedes the next command that is not a call of the
        accelerator.  The command Discard needs no wait, because no engine executes it."""
        for command in commands:
            if isinstance(command, Loop):
                yield self._loop(command)
            elif isinstance(command, Call) and command.engine == self.engine:
                self.pending = True
                yield command
            else:
                if self.pending and not isinstance(command, Discard):
                    self.pending = False
                    yield self.wait
                yield command

    def _loop(self, loop: Loop) -> Loop:
        """Return a loop with waits in its body; update `pending`.

        When an iteration begins, calls may be pending from before the loop or from the previous
        iteration.  If either is possible, a wait precedes the first command in the body that
        another engine executes."""
        before = self.pending
        tuple(self.added(loop.body))
        self.pending = before or self.pending
        body = tuple(self.added(loop.body))
        self.pending = before or self.pending  # the loop may have no iteration
        return replace(loop, body=body)
