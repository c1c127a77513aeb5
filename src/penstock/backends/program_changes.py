"""Checks that a program pass changes only what its phase permits (`PassPhase`).

A check compares the program before the pass with the program after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.backends.accelerator import PassPhase
from penstock.ir.op import Kernel
from penstock.program.program import Address, Buffer, Call, Command, Invoke, Loop, Program
from penstock.program.steps import walk


@dataclass(frozen=True, slots=True)
class Permission:
    """What an accelerator's passes may change in a program during a phase.

    engine: the accelerator.
    phase: one of the phases of program passes."""

    engine: str
    phase: PassPhase

    def violation(self, before: Program, after: Program) -> str:
        """Return a description of the first change that is not permitted; "" if there is none."""
        return next(self._violations(before, after), "")

    def _violations(self, before: Program, after: Program) -> Iterator[str]:
        for part in ("name", "memories", "inputs", "outputs", "init", "reset"):
            if getattr(before, part) != getattr(after, part):
                yield f"the {part} of the program"
        yield from self._buffers(before, after)
        yield from self._commands(before.run, after.run)

    def _buffers(self, before: Program, after: Program) -> Iterator[str]:
        if [b.name for b in before.buffers] != [b.name for b in after.buffers]:
            yield "the list of buffers"
            return
        own = _stream_buffers(before, self.engine)
        for old, new in zip(before.buffers, after.buffers, strict=True):
            free = self.phase is PassPhase.PROGRAM_PHASE_3 and old.name in own
            if old != (_with_same_bytes(new, old) if free else new):
                yield f'buffer "{old.name}"'

    def _commands(self, before: Sequence[Command], after: Sequence[Command]) -> Iterator[str]:
        if len(before) != len(after):
            yield "the number of commands"
            return
        for old, new in zip(before, after, strict=True):
            if old is new:
                continue
            if isinstance(old, Loop) and isinstance(new, Loop):
                if replace(old, body=()) != replace(new, body=()):
                    yield f'the loop over "{old.variable}"'
                yield from self._commands(old.body, new.body)
            elif isinstance(old, Call) and isinstance(new, Call):
                yield from self._call(old, new)
            elif old != new:
                yield f"a command of type {type(old).__name__}"

    def _call(self, old: Call, new: Call) -> Iterator[str]:
        where = f'the call that computes "{old.output.tensor}"'
        if old.engine != self.engine:
            if old != new:
                yield f"{where} on {old.engine}"
        elif self.phase in (PassPhase.PROGRAM_PHASE_2, PassPhase.PROGRAM_PHASE_3):
            if replace(old, body=()) != replace(new, body=()):
                yield f"{where} in more than its body"
        elif replace(old, kernel=new.kernel) != new:
            yield f"{where} in more than its kernel"
        elif self.phase is PassPhase.PROGRAM_PHASE_1 and not _same_memory_and_cost(old, new):
            yield f"memory or cost of the kernel of {where}"


def _same_memory_and_cost(old: Call, new: Call) -> bool:
    """Whether the kernels of two calls differ at most in their name, body, tables and traffic."""

    def rest(kernel: Kernel) -> Kernel:
        return replace(kernel, name="", body=None, tables=(), traffic=None)

    return rest(old.kernel) == rest(new.kernel)


def _stream_buffers(program: Program, engine: str) -> frozenset[str]:
    """The names of the buffers with the command streams that an accelerator's calls submit."""
    streams = {buffer.name for buffer in program.buffers if buffer.is_stream}
    calls = (c for c in walk(program.run) if isinstance(c, Call) and c.engine == engine)
    submitted = (c for call in calls for c in walk(call.body) if isinstance(c, Invoke))
    used = (a.buffer for c in submitted for a in c.arguments if isinstance(a, Address))
    return frozenset(name for name in used if name in streams)


def _with_same_bytes(new: Buffer, old: Buffer) -> Buffer:
    """The buffer `new` with the bytes of `old`, so that a comparison ignores changed bytes.

    If the numbers of bytes differ, the result is `new` itself, which differs from `old`."""
    same = new.data is not None and len(new.data.raw) == old.size_bytes
    return replace(new, data=old.data) if same else new


def change_check(engine: str, phase: PassPhase) -> Callable[[Program, Program], str]:
    """Return a function that checks what a pass of an accelerator has changed.

    The function takes the program before and after a pass of `phase`.  It returns a description of
    the first change that is not permitted; "" if there is none.

    engine: the name of the accelerator."""
    return Permission(engine, phase).violation
