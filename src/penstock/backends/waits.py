"""Waits: a program waits for an accelerator that queues its calls before another engine runs.

The driver function that receives command streams may return before the streams have been executed.
The accelerator executes them in order, so consecutive calls need no wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.backends.accelerator import Accelerator
from penstock.program.program import Call, Command, Discard, Invoke, Loop, Program


def with_waits(program: Program, accelerator: Accelerator) -> Program:
    """Return the program with a wait before each command that may follow calls of an accelerator.

    Without a driver function that waits (`_register_wait`), the program is unchanged."""
    wait = accelerator.codegen.wait
    if wait is None:
        return program
    waits = _Waits(accelerator.name, Invoke(wait, ()))
    run = tuple(waits.added(program.run))
    return replace(program, run=(*run, waits.wait) if waits.pending else run)


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
        """Yield commands with the waits that they need; update `pending`."""
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
        """Return a loop with waits.

        Its first commands follow the commands before the loop, or the last ones of its body."""
        before = self.pending
        tuple(self.added(loop.body))
        self.pending = before or self.pending
        body = tuple(self.added(loop.body))
        self.pending = before or self.pending  # the loop may have no iteration
        return replace(loop, body=body)
